//! `nodewarden completions`: the script by which a shell completes this command line, and `nodewarden
//! manual`, which writes the manual pages; packages ship both.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::CliError;
use super::output::stdout;

/// Print the script by which a shell completes this command line
#[derive(Debug, Args)]
#[command(after_help = "\
Packages install it for bash, zsh and fish. Elsewhere, for example:
  nodewarden completions bash > /usr/share/bash-completion/completions/nodewarden")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write the manual pages, one a command
#[derive(Debug, Args)]
pub struct ManualArgs {
    /// A folder
    directory: PathBuf,
}

/// Prints the script for `command`.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), CliError> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    let mut out = stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(())
}

/// Writes a page for `command` and each of its subcommands.
pub fn manual(args: &ManualArgs, command: Command) -> Result<(), CliError> {
    std::fs::create_dir_all(&args.directory)?;
    clap_mangen::generate_to(command, &args.directory)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn each_command_has_a_page_with_its_options() {
        let temp = tempfile::tempdir().unwrap();
        manual(&ManualArgs { directory: temp.path().to_owned() }, Cli::command()).unwrap();
        let read = |name: &str| std::fs::read_to_string(temp.path().join(name)).unwrap();
        for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let page = read(&format!("nodewarden-{}.1", command.get_name()));
            assert!(page.contains(".SH NAME") && page.contains("SYNOPSIS"), "{page}");
        }
        assert!(read("nodewarden-events.1").contains("\\-\\-since"));
        assert!(!temp.path().join("nodewarden-manual.1").exists(), "a hidden command has no page");
        assert!(!read("nodewarden.1").contains("manual(1)"));
    }

    #[test]
    fn each_shell_gets_a_script_with_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "nodewarden", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("simulate") && script.contains("iterations"), "{shell}");
        }
    }
}
