//! `nodewarden undo`: puts back what an agent in mode augment has written and could not put back itself.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use nodewarden_augment::Ledger;
use nodewarden_augment::ledger::machine::Files;
use nodewarden_augment::ledger::{FILE, Undone};
use nodewarden_config as config;
use nodewarden_config::Overrides;

use super::CliError;
use super::output::stdout;

/// Put back what an agent in mode augment has written, if it was killed or could not do so at its end
#[derive(Debug, Args)]
#[command(after_help = "\
An agent puts everything back when it ends, and what an earlier one has left when it starts: this command is for a machine on
which none will run again. It refuses while an agent in mode augment runs. A value that somebody else has written since is
left alone and shown. Running it again does nothing.

Examples:
  nodewarden undo
  nodewarden undo --config /etc/nodewarden/config.yaml
  nodewarden undo --state-dir /var/lib/nodewarden --dry-run")]
pub struct UndoArgs {
    /// The agent's configuration file, for its state directory
    #[arg(long, value_name = "FILE", conflicts_with = "state_dir")]
    config: Option<PathBuf>,
    /// The agent's state directory
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Only show what would be put back
    #[arg(long)]
    dry_run: bool,
}

pub fn run(args: &UndoArgs) -> Result<(), CliError> {
    let state_dir = match (&args.state_dir, &args.config) {
        (Some(directory), _) => directory.clone(),
        (None, file) => config::load(file.as_deref(), None, &Overrides::default())?.state_dir,
    };
    let mut out = stdout();
    let failed = undo(&state_dir, args.dry_run, &mut out)?;
    out.flush()?;
    if failed.is_empty() { Ok(()) } else { Err(CliError::Undo { problems: failed }) }
}

/// Returns what could not be put back.
fn undo(state_dir: &Path, dry_run: bool, out: &mut impl Write) -> Result<Vec<String>, CliError> {
    if !state_dir.join(FILE).exists() {
        writeln!(out, "nothing to put back: there is no {} in {}", FILE, state_dir.display())?;
        return Ok(Vec::new());
    }
    let mut ledger = Ledger::open(state_dir, Files)?;
    if dry_run {
        for entry in ledger.entries() {
            let (path, value, old) = (entry.place.path(), entry.value(), &entry.old);
            writeln!(out, "{}: {value} would be {old} again", path.display())?;
        }
        return Ok(Vec::new());
    }
    let results = ledger.withdraw(|_| true)?;
    let (mut restored, mut failed) = (0, Vec::new());
    for (entry, undone) in results {
        let path = entry.place.path();
        let path = path.display();
        match undone {
            Undone::Restored => {
                restored += 1;
                writeln!(out, "{path}: {} again", entry.old)?;
            }
            Undone::Nothing => {}
            Undone::LeftAlone { found } => {
                writeln!(out, "{path}: left alone, because somebody else has written {found:?}")?;
            }
            Undone::Failed(why) => failed.push(why),
        }
    }
    writeln!(out, "{restored} values were put back")?;
    Ok(failed)
}
