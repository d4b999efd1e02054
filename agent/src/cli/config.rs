//! `nodewarden config`: checks a configuration file, and prints the settings that the agent would run with.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::CliError;
use super::output::stdout;
use nodewarden_config as config;
use nodewarden_config::Overrides;

/// Check a configuration file, or print the settings that the agent would run with
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Report all problems of a file at once; fails if there is one
    Check {
        /// KubeletConfiguration file with a `nodewarden:` section
        file: PathBuf,
        /// Directory of drop-in files (*.conf), merged over the file in lexical order of their names
        #[arg(long, value_name = "DIR")]
        config_dir: Option<PathBuf>,
    },
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
            let config = config::load(Some(file), config_dir.as_deref(), &Overrides::default())?;
            match config_dir {
                None => writeln!(out, "{} is valid", file.display())?,
                Some(dir) => writeln!(out, "{} with {} is valid", file.display(), dir.display())?,
            }
            for renamed in &config.renamed {
                writeln!(out, "{renamed}")?;
            }
            if !config.ignored.is_empty() {
                writeln!(out, "keys of the kubelet without effect here: {}", config.ignored.join(", "))?;
            }
        }
        ConfigCommand::Show { config, config_dir, overrides } => {
            let config = config::load(config.as_deref(), config_dir.as_deref(), overrides)?;
            out.write_all(config.to_yaml().as_bytes())?;
        }
    }
    out.flush()?;
    Ok(())
}
