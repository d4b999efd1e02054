//! `nodewarden config`: checks a configuration file, prints the settings that the agent would run with, and
//! the schema.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::CliError;
use super::output::stdout;
use crate::daemon::check_resource_managers;
use nodewarden_config as config;
use nodewarden_config::Mode;
use nodewarden_config::{Checked, Overrides};

/// Check a configuration file, print the settings that the agent would run with, or the schema of such files
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Report all problems of a file at once, which fails if there is one; else list the keys that have an
    /// effect, and those that have none, with the reason
    Check {
        /// KubeletConfiguration file with a `nodewarden:` section
        file: PathBuf,
        /// Directory of drop-in files (*.conf), merged over the file in lexical order of their names
        #[arg(long, value_name = "DIR")]
        config_dir: Option<PathBuf>,
    },
    /// Print the JSON schema of a configuration file: keys, types, ranges, defaults
    Schema,
    /// Print every setting as a configuration file: the defaults, overridden by the file and the flags
    Show {
        /// KubeletConfiguration file with a `nodewarden:` section
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Directory of drop-in files (*.conf), merged over the file in lexical order of their names
        #[arg(long, value_name = "DIR")]
        config_dir: Option<PathBuf>,
        #[command(flatten)]
        overrides: Overrides,
    },
}

pub fn run(args: &ConfigArgs) -> Result<(), CliError> {
    let mut out = stdout();
    match &args.command {
        ConfigCommand::Check { file, config_dir } => {
            let checked = config::check(Some(file), config_dir.as_deref(), &Overrides::default())?;
            match config_dir {
                None => writeln!(out, "{} is valid", file.display())?,
                Some(dir) => writeln!(out, "{} with {} is valid", file.display(), dir.display())?,
            }
            write_keys(&mut out, &checked)?;
            // Another machine may hold it: no error of the file.
            if checked.config.mode == Mode::Manage
                && let Err(error) = check_resource_managers(&checked.config)
            {
                writeln!(out, "on this machine the agent would not start: {error}")?;
            }
        }
        ConfigCommand::Show { config, config_dir, overrides } => {
            let config = config::load(config.as_deref(), config_dir.as_deref(), overrides)?;
            out.write_all(config.to_yaml().as_bytes())?;
        }
        ConfigCommand::Schema => writeln!(out, "{:#}", config::schema())?,
    }
    out.flush()?;
    Ok(())
}

/// What the keys of a valid file do here: those that have another name now, those with an effect, those
/// without.
fn write_keys(out: &mut impl Write, checked: &Checked) -> io::Result<()> {
    for renamed in &checked.config.renamed {
        writeln!(out, "{renamed}")?;
    }
    list(out, "keys with an effect", &checked.effective)?;
    list(out, "keys of the kubelet without effect here", &checked.config.ignored)
}

/// One line for each under a title; nothing for none.
fn list<T: Display>(out: &mut impl Write, title: &str, lines: &[T]) -> io::Result<()> {
    if !lines.is_empty() {
        writeln!(out, "{title}:")?;
    }
    lines.iter().try_for_each(|line| writeln!(out, "  {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_and_without_effect_are_listed_apart() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 50\nsyncFrequency: 1m\n\
                    hairpinMode: none\nlogging: {format: json, flushFrequency: 5s}\nnodewarden: {mode: manage}\n";
        std::fs::write(&file, text).unwrap();
        let checked = config::check(Some(&file), None, &Overrides::default()).unwrap();
        let mut out = Vec::new();
        write_keys(&mut out, &checked).unwrap();
        let expected = "keys with an effect:
  maxPods
  logging.format
  nodewarden.mode
keys of the kubelet without effect here:
  logging.flushFrequency: every line is written at once
  syncFrequency: pods are looked at when something of them changes; nodewarden.reconcileSeconds is how often all limits \
are compared
  hairpinMode: the container runtime sets up the network
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
