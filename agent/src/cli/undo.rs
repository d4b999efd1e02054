//! `nodewarden undo`: puts back what an agent in mode augment has written and could not put back itself.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use nodewarden_augment::Ledger;
use nodewarden_augment::ledger::units::UnitFiles;
use nodewarden_augment::ledger::{FILE, Undone};
use nodewarden_config as config;
use nodewarden_config::Overrides;

use nodewarden_kube::credentials::source;
use nodewarden_kube::stand_down::stand_down;
use tokio::signal::unix::{SignalKind, signal};

use super::output::stdout;
use super::{CliError, client};

/// Put back what an agent in mode augment has written, if it was killed or could not do so at its end
#[derive(Debug, Args)]
#[command(after_help = "\
An agent puts everything back when it ends, and what an earlier one has left when it starts: this command is for a machine on
which none will run again. It refuses while an agent in mode augment runs. A value that another program has written since is
left alone and shown. Running it again does nothing.

Examples:
  nodewarden undo
  nodewarden undo --config /etc/nodewarden/config.yaml
  nodewarden undo --state-dir /var/lib/nodewarden --dry-run
  nodewarden undo --daemonset nodewarden/nodewarden         on all nodes, before the DaemonSet is deleted")]
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
    /// Then wait for SIGTERM or SIGINT, as the only process of a pod that others wait for
    #[arg(long, conflicts_with = "dry_run")]
    stay: bool,
    /// On every node of this DaemonSet, whose pods are replaced by ones that do it and wait: before it is
    /// removed. With the credentials of $KUBECONFIG or ~/.kube/config, else of the pod in which this runs
    #[arg(long, value_name = "NAMESPACE/NAME", conflicts_with_all = ["config", "state_dir", "dry_run", "stay"])]
    daemonset: Option<String>,
    /// With --daemonset: how long all nodes may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300, requires = "daemonset")]
    timeout: u64,
}

pub fn run(args: &UndoArgs) -> Result<(), CliError> {
    if let Some(name) = &args.daemonset {
        return client::block_on(everywhere(name, Duration::from_secs(args.timeout)));
    }
    let state_dir = match (&args.state_dir, &args.config) {
        (Some(directory), _) => directory.clone(),
        (None, file) => config::load(file.as_deref(), None, &Overrides::default())?.state_dir,
    };
    let mut out = stdout();
    let failed = undo(&state_dir, args.dry_run, &mut out)?;
    out.flush()?;
    if !failed.is_empty() {
        return Err(CliError::Undo { problems: failed });
    }
    if args.stay { client::block_on(ended()) } else { Ok(()) }
}

/// Has every node of a DaemonSet put back what was written.
async fn everywhere(name: &str, limit: Duration) -> Result<(), CliError> {
    let client = source::of_command().await?;
    stand_down(&client, name, limit, |now| {
        eprintln!("{} of {} nodes have put everything back", now.ready, now.wanted);
    })
    .await?;
    Ok(())
}

/// Waits for SIGTERM or SIGINT.
async fn ended() -> Result<(), CliError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Returns what could not be put back.
fn undo(state_dir: &Path, dry_run: bool, out: &mut impl Write) -> Result<Vec<String>, CliError> {
    if !state_dir.join(FILE).exists() {
        writeln!(out, "nothing to put back: there is no {} in {}", FILE, state_dir.display())?;
        return Ok(Vec::new());
    }
    let mut ledger = Ledger::open(state_dir, UnitFiles::new())?;
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
                writeln!(out, "{path}: left alone, because another program has written {found:?}")?;
            }
            Undone::Failed(why) => failed.push(why),
        }
    }
    writeln!(out, "{restored} values were put back")?;
    Ok(failed)
}
