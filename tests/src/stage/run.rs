//! `nodewarden-stage run`: starts containerd, its network, a cgroup and the agent with three pods. Removes
//! all of them after Ctrl-C.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::directory::RunDirectory;
use super::hints::Hints;
use super::settings::Settings;
use super::{StageError, cluster, examples};
use crate::fixture::{
    AgentError, Cluster, Layout, NodeSettings, PrivateContainerd, PrivateOptions, TestRoot, die_with_parent,
    free_port, remove_tree,
};
use crate::harness::Problems;

/// The cgroup of all pods. Neither a kubelet nor the machine's own units use this name.
const CGROUP_ROOT: &str = "/nodewarden-run";
/// Name of the network's bridge.
const LINK: &str = "nodewarden0";
/// The node's name, in the configuration too.
pub const NODE_NAME: &str = "here";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory for manifests, state and all files of the container runtime
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// Unix socket on which the agent listens for the command line
    #[arg(long, value_name = "PATH", default_value = "/run/nodewarden/nodewarden.sock")]
    socket: PathBuf,
    /// Address on which the agent listens for HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10350")]
    http: String,
    /// Run a control plane of Kubernetes too, with the agent as its node
    #[arg(long)]
    cluster: bool,
    /// How to write the command `nodewarden` in the hints
    #[arg(long, value_name = "COMMAND", default_value = "nodewarden")]
    program: String,
    /// Passed on to `nodewarden agent`
    #[arg(last = true)]
    args: Vec<String>,
}

/// Runs containerd and the agent until the agent ends, then removes everything. Returns the agent's exit
/// status, or a failure if something was left behind.
///
/// # Errors
/// Containerd or the agent cannot be started.
pub fn run(agent: &Path, args: &Args) -> Result<ExitCode, StageError> {
    // Done before any thread starts: threads inherit the mask, so only the thread that waits receives Ctrl-C.
    let signals = cluster::block_signals()?;
    let directory = RunDirectory::new(&args.directory);
    directory.clear()?;
    fs::create_dir_all(directory.state()).map_err(StageError::file(&directory.state()))?;
    let problems = Problems::default();
    let layout = Arc::new(Layout::detect()?);
    for hierarchy in layout.hierarchies() {
        // Left by a run that was killed. Its pods have ended by now.
        let left = hierarchy.mount.join(CGROUP_ROOT.trim_start_matches('/'));
        remove_tree(&left, std::time::Instant::now() + Duration::from_secs(5))?;
    }
    eprintln!("starting containerd …");
    let options = PrivateOptions {
        folder: directory.containerd(),
        link: LINK.to_owned(),
        log: directory.containerd_log(),
        timeout: Duration::from_secs(60),
        systemd: false,
    };
    let mut containerd = PrivateContainerd::start(options)?;
    let root = TestRoot::at(layout, CGROUP_ROOT.to_owned(), problems.clone())?;
    let no_network = containerd.no_network().map(str::to_owned);
    let control_plane = match args.cluster {
        true => Some(cluster::start(&directory.cluster(), None)?),
        false => None,
    };
    // In a cluster pods come from its API server. Manifests of one's own are run too.
    match &control_plane {
        Some(_) => examples::remove(&directory.manifests())?,
        None => examples::write(&directory.manifests(), no_network.is_some())?,
    }
    let node = control_plane.as_ref().map(|one| Node::of(one.cluster())).transpose()?;
    let settings = Settings {
        socket: args.socket.clone(),
        http: args.http.clone(),
        state: directory.state(),
        logs: directory.logs(),
        manifests: directory.manifests(),
        kubelet: directory.kubelet(),
        runtime: containerd.socket().to_owned(),
        cgroup_root: CGROUP_ROOT.to_owned(),
        node: node.as_ref().map(|node| node.lines.clone()).unwrap_or_default(),
    };
    let configuration = directory.configuration();
    fs::write(&configuration, settings.yaml()).map_err(StageError::file(&configuration))?;
    let hints = Hints { program: &args.program, configuration: &configuration, settings: &settings };
    let text = match &control_plane {
        Some(one) => hints.in_cluster(one.cluster(), no_network.as_deref()),
        None => hints.text(no_network.as_deref()),
    };
    eprint!("{text}");

    let more = node.iter().flat_map(|node| &node.arguments).chain(&args.args);
    let mut child = start(agent, &configuration, more)?;
    let pid = Pid::from_raw(child.id().cast_signed());
    std::thread::spawn(move || {
        while signals.wait().is_ok() {
            // An error means that the agent has ended already.
            let _gone = kill(pid, Signal::SIGTERM);
        }
    });
    let status = child.wait().map_err(|source| AgentError::Wait { source })?;
    eprintln!("\nthe agent has ended; removing its pods, containerd and the network …");
    let mut left = containerd.end();
    drop(control_plane);
    drop(root);
    left.extend(problems.take());
    if let Err(error) = directory.clear() {
        left.push(error.to_string());
    }
    left.iter().for_each(|problem| eprintln!("left behind: {problem}"));
    if left.is_empty() {
        eprintln!("everything was removed");
    }
    Ok(exit_code(status, left.is_empty()))
}

/// What the agent needs to be a node of the cluster.
struct Node {
    /// Lines of its configuration.
    lines: String,
    arguments: Vec<String>,
}

impl Node {
    fn of(cluster: &Cluster) -> Result<Self, StageError> {
        let authority = cluster.authority();
        let port = free_port().map_err(StageError::file(Path::new("a free port")))?;
        let lines = NodeSettings { authority: &authority, port, read_only_port: 0 }.lines();
        let kubeconfig = cluster.node(NODE_NAME)?.display().to_string();
        let arguments = ["--kubeconfig", &kubeconfig, "--hostname-override", NODE_NAME].map(str::to_owned);
        Ok(Self { lines, arguments: arguments.into() })
    }
}

/// Starts the agent in a process group of its own, so that it receives Ctrl-C only once, as a signal from
/// this process.
fn start<'a>(
    agent: &Path,
    configuration: &Path,
    more: impl Iterator<Item = &'a String>,
) -> Result<Child, AgentError> {
    let mut command = Command::new(agent);
    command.arg("agent").arg("--config").arg(configuration).args(more);
    command.stdin(Stdio::null()).process_group(0);
    die_with_parent(&mut command);
    command.spawn().map_err(|source| AgentError::Spawn { path: agent.to_owned(), source })
}

fn exit_code(agent: ExitStatus, clean: bool) -> ExitCode {
    match agent.code() {
        Some(0) if clean => ExitCode::SUCCESS,
        Some(code) if code != 0 => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        _ => ExitCode::FAILURE,
    }
}
