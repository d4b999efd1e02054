//! `nodewarden-stage cluster`: a control plane on its own, for trying things by hand.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use super::StageError;
use crate::fixture::{Cluster, ControlPlane, ControlPlaneOptions};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory for certificates, kubeconfigs, logs and etcd's files
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// Port of kube-apiserver (default: a free one)
    #[arg(long)]
    port: Option<u16>,
}

#[derive(Debug, clap::Args)]
pub struct NodeArgs {
    /// The control plane's directory
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// The node's name
    name: String,
}

/// Runs the control plane until SIGINT or SIGTERM.
///
/// # Errors
/// It does not start.
pub fn run(args: &Args) -> Result<ExitCode, StageError> {
    let signals = block_signals()?;
    let mut control_plane = start(&args.directory, args.port)?;
    let cluster = control_plane.cluster();
    println!("{}", summary(cluster));
    let _received = signals.wait();
    control_plane.end();
    Ok(ExitCode::SUCCESS)
}

/// # Errors
/// There is no control plane in the directory, or the file cannot be written.
pub fn node_kubeconfig(args: &NodeArgs) -> Result<ExitCode, StageError> {
    let cluster = Cluster::open(&args.directory)?;
    println!("{}", cluster.node(&args.name)?.display());
    Ok(ExitCode::SUCCESS)
}

/// Starts a control plane in a directory, from nothing.
///
/// # Errors
/// It does not start, or what an earlier one left cannot be removed.
pub fn start(directory: &std::path::Path, port: Option<u16>) -> Result<ControlPlane, StageError> {
    eprintln!("starting etcd, kube-apiserver, kube-controller-manager and kube-scheduler …");
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(StageError::file(directory)(error));
        }
        _ => {}
    }
    std::fs::create_dir_all(directory).map_err(StageError::file(directory))?;
    let folder = directory.canonicalize().map_err(StageError::file(directory))?;
    let options = ControlPlaneOptions {
        folder,
        timeout: Duration::from_secs(120),
        port,
        signed_for: None,
        audit: false,
        node_gone: None,
    };
    Ok(ControlPlane::start(&options)?)
}

/// Keeps SIGINT and SIGTERM for the caller to wait for. Called before any thread starts, since threads
/// inherit the mask.
///
/// # Errors
/// The mask cannot be set.
pub fn block_signals() -> Result<SigSet, StageError> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    let blocked = signals.thread_block();
    blocked.map_err(|error| StageError::file(std::path::Path::new("sigprocmask"))(error.into()))?;
    Ok(signals)
}

fn summary(cluster: &Cluster) -> String {
    format!(
        "server {}\nadmin {}\nbootstrap {}\nauthority {}\nready",
        cluster.server(),
        cluster.admin().display(),
        cluster.bootstrap().display(),
        cluster.authority().display(),
    )
}
