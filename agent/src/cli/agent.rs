//! `nodewarden agent`: the daemon.

use std::path::{Path, PathBuf};

use clap::Args;

use super::CliError;
use super::logging::log_to_stderr;
use crate::daemon;
use nodewarden_config as config;
use nodewarden_config::{Config, ConfigError, Overrides};

/// Start the agent in the foreground (needs root)
#[derive(Debug, Args)]
#[command(after_help = "\
Every setting has a default, so a file is needed only to change one. Flags take precedence over the file.
A kubelet's own configuration file can be used; its keys that have no effect here are listed at start.
Set NODEWARDEN_LOG to change what is logged: error, warn, info (default), debug, trace, or by module.

Examples:
  nodewarden agent
  nodewarden agent --config /var/lib/kubelet/config.yaml --http-address 127.0.0.1:9999
  nodewarden agent --kubeconfig /etc/kubernetes/kubelet.conf --config /var/lib/kubelet/config.yaml
  NODEWARDEN_LOG=nodewarden::journal=debug nodewarden agent --state-dir /tmp/state

Every flag of a kubelet is taken too: as its key of the file, or with a warning that it has no effect here. Started by the
name kubelet, or with flags alone, the agent needs no subcommand, so that what starts a kubelet starts it unchanged.")]
pub struct AgentArgs {
    /// KubeletConfiguration file with a `nodewarden:` section
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of drop-in files (*.conf), merged over the file in lexical order
    #[arg(long, value_name = "DIR")]
    config_dir: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
}

impl AgentArgs {
    /// The settings that an agent with these arguments has that was started in `directory`.
    pub fn load(&self, directory: &Path) -> Result<Config, ConfigError> {
        let place = |path: &PathBuf| directory.join(path);
        let (file, drop_ins) = (self.config.as_ref().map(place), self.config_dir.as_ref().map(place));
        config::load(file.as_deref(), drop_ins.as_deref(), &self.overrides)
    }
}

pub fn run(args: &AgentArgs) -> Result<(), CliError> {
    let config = config::load(args.config.as_deref(), args.config_dir.as_deref(), &args.overrides)?;
    log_to_stderr(config.logging);
    for warning in config.renamed.iter().chain(&config.flags_without_effect) {
        tracing::warn!("{warning}");
    }
    daemon::run(config)?;
    Ok(())
}
