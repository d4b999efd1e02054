//! `nodewarden-stage`: starts a private container runtime and the agent in mode manage on it. `cargo xtask
//! run` uses it interactively, `cargo xtask soak` for soak tests, `cargo xtask pictures` for pictures of the
//! page.

mod cluster;
mod directory;
mod examples;
mod hints;
mod pictures;
mod run;
mod settings;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::conformance::{self, ConformanceError};
use crate::fixture::{AgentError, CgroupError, ClusterError, ContainerdError};
use crate::soak;

/// The agent with pods on a private container runtime. Needs root.
#[derive(Parser)]
#[command(name = "nodewarden-stage", version)]
struct Arguments {
    /// The agent's binary (default: `nodewarden` in the directory of this program)
    #[arg(long, global = true)]
    agent: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the agent in the foreground with a private containerd and example pods, until Ctrl-C
    Run(run::Args),
    /// Run a control plane of Kubernetes on loopback until Ctrl-C
    Cluster(cluster::Args),
    /// Write the kubeconfig of a node for a control plane that runs, and print its path
    NodeKubeconfig(cluster::NodeArgs),
    /// Run Kubernetes' own tests of a node
    Conformance(conformance::Args),
    /// Take pictures of the page with example pods
    Pictures(pictures::Args),
    /// Make random changes for some time or rounds and check the result
    Soak(soak::Args),
}

/// Why the container runtime and the agent cannot be started or removed.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    #[error(transparent)]
    Containerd(#[from] ContainerdError),
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    Conformance(#[from] ConformanceError),
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("no agent at {}", .0.display())]
    NoAgent(PathBuf),
    #[error("{0}, left by an earlier run, is still mounted: unmount it")]
    Mounted(PathBuf),
}

impl StageError {
    /// For `map_err` on a file operation.
    fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

/// Runs the command line of `nodewarden-stage`.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if !nix::unistd::geteuid().is_root() {
        eprintln!("nodewarden-stage: not root");
        return ExitCode::from(2);
    }
    let agent = || {
        let agent = crate::harness::agent_path(arguments.agent);
        if agent.is_file() { Ok(agent) } else { Err(StageError::NoAgent(agent)) }
    };
    let done = match arguments.command {
        Command::Run(args) => agent().and_then(|agent| run::run(&agent, &args)),
        Command::Cluster(args) => cluster::run(&args),
        Command::NodeKubeconfig(args) => cluster::node_kubeconfig(&args),
        Command::Conformance(args) => agent().and_then(|agent| Ok(conformance::main(&agent, &args)?)),
        Command::Pictures(args) => agent().map(|agent| pictures::main(&agent, &args)),
        Command::Soak(args) => agent().map(|agent| soak::main(&agent, &args)),
    };
    done.unwrap_or_else(|error| {
        eprintln!("nodewarden-stage: {error}");
        ExitCode::FAILURE
    })
}
