//! `cargo xtask run`: the agent in the foreground, with pods on a container runtime of its own to try it out;
//! or with a configuration that only watches, or with one's own.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use thiserror::Error;

use crate::build::{self, BuildError, Programs};
use crate::setup::{self, Purpose, SetupError};
use xtask_common::layout::{self, Layout, Profile};

/// Where the agent listens by default, and where `nodewarden events` looks.
const SOCKET: &str = "/run/nodewarden/nodewarden.sock";
/// Overrides [`SOCKET`].
const SOCKET_VARIABLE: &str = "NODEWARDEN_SOCKET";
const HTTP: &str = "127.0.0.1:10350";
/// Container runtimes' usual CRI sockets; the first that exists gives pods their names.
const RUNTIMES: [&str; 3] =
    ["/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock"];

/// Arguments of `cargo xtask run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run the optimised build
    #[arg(long)]
    release: bool,
    /// Only watch this machine, changing nothing on it
    #[arg(long, conflicts_with = "config")]
    observe: bool,
    /// As the node of a Kubernetes control plane of its own
    #[arg(long, conflicts_with_all = ["config", "observe"])]
    cluster: bool,
    /// Use only this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Passed on to `nodewarden agent`
    #[arg(last = true)]
    args: Vec<String>,
}

/// The agent could not be run.
#[derive(Debug, Error)]
pub enum RunError {
    /// Loading kernel programs and reading other users' processes needs root.
    #[error("the agent needs root: run `sudo -E env PATH=\"$PATH\" cargo xtask run`, or log in as root")]
    NotRoot,
    /// Something it needs could not be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The development configuration could not be written.
    #[error("cannot write the development configuration {}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The agent could not be started.
    #[error("cannot start {}", path.display())]
    Start {
        /// The agent's binary.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// `cargo xtask run`: becomes the agent, or the program that sets a stage for it, so that Ctrl-C and its exit
/// status are theirs.
///
/// # Errors
/// When the agent can't be built or started.
pub fn run(layout: &Layout, args: &Args) -> Result<(), RunError> {
    if !layout::is_root() {
        return Err(RunError::NotRoot);
    }
    let profile = Profile::of(args.release);
    let alone = args.observe || args.config.is_some();
    let purpose = match (alone, args.cluster) {
        (true, _) => Purpose::Build,
        (false, true) => Purpose::Cluster,
        (false, false) => Purpose::Run,
    };
    setup::ensure(layout, purpose)?;
    build::kernel_programs(layout, false)?;
    let programs = match (alone, args.release) {
        (true, _) => Programs::Agent(profile),
        (false, false) => Programs::Quick,
        (false, true) => Programs::Measured,
    };
    build::host_programs(layout, programs, false)?;
    if alone { run_alone(layout, profile, args) } else { run_with_pods(layout, profile, args) }
}

/// The agent with pods: see `nodewarden-stage run`.
fn run_with_pods(layout: &Layout, profile: Profile, args: &Args) -> Result<(), RunError> {
    let agent = layout.program(profile, "nodewarden");
    let stage = layout.program(profile, "nodewarden-stage");
    let mut command = layout.command(&stage);
    command.arg("--agent").arg(&agent).arg("run");
    command.arg("--directory").arg(layout.target.join("run"));
    command.arg("--program").arg(layout.short(&agent));
    command.args(["--http", HTTP, "--socket", &socket()]);
    if args.cluster {
        command.arg("--cluster");
    }
    command.arg("--").args(&args.args);
    command.env("PATH", layout.path_with_tools());
    Err(RunError::Start { path: stage, source: command.exec() })
}

/// The agent and nothing else.
fn run_alone(layout: &Layout, profile: Profile, args: &Args) -> Result<(), RunError> {
    let agent = layout.program(profile, "nodewarden");
    let configuration = match &args.config {
        Some(own) => {
            let own = env::current_dir().map_or_else(|_| own.clone(), |folder| folder.join(own));
            eprintln!("\nnodewarden runs with {} until Ctrl-C.\n", own.display());
            own
        }
        None => {
            let settings = Settings::of_this_machine(layout);
            let path = write_configuration(layout, &settings)?;
            eprint!("{}", where_to_look(layout, &agent, &path, &settings));
            path
        }
    };
    let mut command = layout.command(&agent);
    command.arg("agent").arg("--config").arg(configuration).args(&args.args);
    Err(RunError::Start { path: agent, source: command.exec() })
}

/// What differs from one machine to the other.
#[derive(Debug)]
struct Settings {
    socket: String,
    state: PathBuf,
    runtime: Option<&'static str>,
}

impl Settings {
    fn of_this_machine(layout: &Layout) -> Self {
        Self {
            socket: socket(),
            state: layout.target.join("run/state"),
            runtime: RUNTIMES.into_iter().find(|path| Path::new(path).exists()),
        }
    }

    fn yaml(&self) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let mut yaml = format!(
            "# Written by `cargo xtask run --observe` at each start; pass --config to use a file of your own.\n\
             apiVersion: kubelet.config.k8s.io/v1beta1\n\
             kind: KubeletConfiguration\n\
             nodewarden:\n  \
               mode: observe\n  \
               socket: {}\n  \
               httpAddress: {HTTP}\n  \
               stateDir: {}\n  \
               maxCgroups: 4096\n",
            quoted(&self.socket),
            quoted(&self.state.display().to_string()),
        );
        if let Some(runtime) = self.runtime {
            yaml.push_str(&format!("  runtimeEndpoint: unix://{runtime}\n"));
        }
        yaml
    }
}

fn socket() -> String {
    env::var(SOCKET_VARIABLE).unwrap_or_else(|_| SOCKET.to_owned())
}

fn write_configuration(layout: &Layout, settings: &Settings) -> Result<PathBuf, RunError> {
    let path = layout.target.join("run/nodewarden.yaml");
    fs::create_dir_all(&settings.state)
        .and_then(|()| fs::write(&path, settings.yaml()))
        .map_err(|source| RunError::Configuration { path: path.clone(), source })?;
    Ok(path)
}

fn where_to_look(layout: &Layout, agent: &Path, configuration: &Path, settings: &Settings) -> String {
    let program = layout.short(agent).display();
    let socket = match settings.socket.as_str() {
        SOCKET => String::new(),
        other => format!(" --socket {other}"),
    };
    let runtime = settings.runtime.unwrap_or("none found: pods show under their ids");
    format!(
        "
nodewarden watches this machine and changes nothing on it. Ctrl-C ends it.

  configuration   {}
  state           {}
  runtime         {runtime}
  gRPC            {}
  HTTP            http://{HTTP}/metrics  /metrics/cadvisor  /metrics/resource
                  /stats/summary  /healthz  /readyz

In a second terminal:

  {program} status{socket}    what it can see here
  {program} top{socket}       who uses what, live
  {program} events{socket}    what happens, as it happens
  {program} tree{socket}      the cgroups with limits and use

",
        layout.short(configuration).display(),
        layout.short(&settings.state).display(),
        settings.socket,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(socket: &str, runtime: Option<&'static str>) -> Settings {
        Settings { socket: socket.to_owned(), state: "/w/it's/state".into(), runtime }
    }

    #[test]
    fn the_configuration_has_every_key_in_its_section() {
        let yaml = settings(SOCKET, Some("/run/x.sock")).yaml();
        let section = yaml.split_once("\nnodewarden:\n").unwrap().1;
        assert!(section.lines().all(|line| line.starts_with("  ") && !line.starts_with("   ")), "{yaml}");
        assert!(section.contains("  stateDir: '/w/it''s/state'\n"));
        assert!(section.contains("  runtimeEndpoint: unix:///run/x.sock\n"));
        assert!(!settings(SOCKET, None).yaml().contains("runtimeEndpoint"));
    }

    #[test]
    fn a_socket_of_its_own_shows_in_the_commands() {
        let layout = Layout { root: "/w".into(), target: "/w/target".into() };
        let look = |socket| {
            let agent = layout.program(Profile::Dev, "nodewarden");
            where_to_look(&layout, &agent, Path::new("/w/target/run/n.yaml"), &settings(socket, None))
        };
        assert!(look(SOCKET).contains("  target/debug/nodewarden events "));
        assert!(look("/tmp/s").contains("  target/debug/nodewarden events --socket /tmp/s "));
    }
}
