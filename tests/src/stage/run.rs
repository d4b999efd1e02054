//! `nodewarden-stage run`: containerd, its network, a place in the cgroup tree, the agent with three pods; until Ctrl-C,
//! after which all of it is gone.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;

use super::home::Home;
use super::settings::Settings;
use super::words::Words;
use super::{StageError, examples};
use crate::fixture::{AgentError, Layout, Private, RuntimePlace, TestRoot, die_with_parent, remove_tree};
use crate::harness::Problems;

/// What pods lie in: nothing that a kubelet or this machine's own units use.
const CGROUP_ROOT: &str = "/nodewarden-run";
/// The network's bridge.
const LINK: &str = "nodewarden0";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder for manifests, state and everything of the container runtime
    #[arg(long, value_name = "DIR")]
    home: PathBuf,
    /// Where the agent listens for the command line
    #[arg(long, value_name = "PATH", default_value = "/run/nodewarden/nodewarden.sock")]
    socket: PathBuf,
    /// Where it listens for HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10350")]
    http: String,
    /// How commands are written in the hints
    #[arg(long, value_name = "COMMAND", default_value = "nodewarden")]
    program: String,
    /// Passed on to `nodewarden agent`
    #[arg(last = true)]
    args: Vec<String>,
}

/// Sets the stage, plays, and takes it down. The exit status is the agent's.
///
/// # Errors
/// The stage cannot be set.
pub fn run(agent: &Path, args: &Args) -> Result<ExitCode, StageError> {
    // Before any thread is there: all of them inherit it, and only the waiting one gets Ctrl-C.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block().map_err(|error| StageError::file(Path::new("sigprocmask"))(error.into()))?;

    let home = Home::new(&args.home);
    home.clear()?;
    fs::create_dir_all(home.state()).map_err(StageError::file(&home.state()))?;
    let problems = Problems::default();
    let layout = Arc::new(Layout::detect()?);
    for hierarchy in layout.hierarchies() {
        // Of a run that was killed; its pods have ended by now.
        let left = hierarchy.mount.join(CGROUP_ROOT.trim_start_matches('/'));
        remove_tree(&left, std::time::Instant::now() + Duration::from_secs(5))?;
    }
    eprintln!("starting containerd …");
    let place = RuntimePlace {
        home: home.containerd(),
        link: LINK.to_owned(),
        log: home.containerd_log(),
        limit: Duration::from_secs(60),
    };
    let mut containerd = Private::start(place)?;
    let root = TestRoot::at(layout, CGROUP_ROOT.to_owned(), problems.clone())?;
    let no_network = containerd.no_network().map(str::to_owned);
    examples::write(&home.manifests(), no_network.is_some())?;
    let settings = Settings {
        socket: args.socket.clone(),
        http: args.http.clone(),
        state: home.state(),
        logs: home.logs(),
        manifests: home.manifests(),
        kubelet: home.kubelet(),
        runtime: containerd.socket().to_owned(),
        cgroup_root: CGROUP_ROOT.to_owned(),
    };
    let configuration = home.configuration();
    fs::write(&configuration, settings.yaml()).map_err(StageError::file(&configuration))?;
    let words = Words { program: &args.program, configuration: &configuration, settings: &settings };
    eprint!("{}", words.to_try(no_network.as_deref()));

    let mut child = start(agent, &configuration, &args.args)?;
    let pid = Pid::from_raw(child.id().cast_signed());
    std::thread::spawn(move || {
        while signals.wait().is_ok() {
            // One that has ended is waited for already.
            let _gone = kill(pid, Signal::SIGTERM);
        }
    });
    let status = child.wait().map_err(|source| AgentError::Wait { source })?;
    eprintln!("\nthe agent has ended; taking down what it ran …");
    let mut left = containerd.end();
    drop(root);
    left.extend(problems.take());
    if let Err(error) = home.clear() {
        left.push(error.to_string());
    }
    left.iter().for_each(|problem| eprintln!("left behind: {problem}"));
    if left.is_empty() {
        eprintln!("nothing is left of it");
    }
    Ok(exit_code(status, left.is_empty()))
}

/// In a group of its own, so that Ctrl-C reaches it through us and once.
fn start(agent: &Path, configuration: &Path, more: &[String]) -> Result<Child, AgentError> {
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
