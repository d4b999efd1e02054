//! The systemd unit in `deploy/`, as it is shipped but for the paths: the agent has all that it needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodewarden_machine::privileges::Capability as Privilege;

use super::privileges;
use super::support::eventually;
use crate::fixture::{Client, free_port, systemctl};
use crate::harness::{Capability, Context, Failure, Problems, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("shipped_unit_has_everything_on", everything_on).needs(NEEDS).timeout(120),
    Test::new("shipped_unit_without_addresses_lacks_oom_scope", without_addresses).needs(NEEDS).timeout(120),
];

const NEEDS: &[Capability] =
    &[Capability::Root, Capability::OwnMachine, Capability::Systemd, Capability::MemoryV2, Capability::Btf];

const UNIT: &str = include_str!("../../../deploy/nodewarden.service");
/// Of the unit, its directories and its configuration: the guest has its programs in /run/nodewarden.
const NAME: &str = "nodewarden-shipped";

/// The unit, installed until this is dropped.
struct Installed {
    files: PathBuf,
    config: PathBuf,
    problems: Problems,
}

impl Installed {
    /// `more` are further lines of the section `[Service]`.
    fn new(context: &Context, more: &str) -> Result<Self, Failure> {
        let units = Path::new("/run/systemd/system");
        let unit = units.join(format!("{NAME}.service"));
        let files = units.join(format!("{NAME}.service.d"));
        let config = PathBuf::from(format!("/run/{NAME}.yaml"));
        let port = free_port().map_err(Failure::file("a free port"))?;
        let text = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nnodewarden:\n  \
             mode: observe\n  socket: {}\n  httpAddress: 127.0.0.1:{port}\n  stateDir: /var/lib/{NAME}\n",
            socket().display()
        );
        let paths = format!(
            "[Service]\nExecStart=\nExecStart={} agent --config {}\nRuntimeDirectory=\n\
             RuntimeDirectory={NAME}\nStateDirectory=\nStateDirectory={NAME}\n{more}\n",
            context.agent.display(),
            config.display()
        );
        let installed = Self { files, config, problems: context.problems() };
        fs::create_dir_all(&installed.files).map_err(Failure::file(&installed.files))?;
        let drop_in = installed.files.join("paths.conf");
        for (path, text) in [(&unit, UNIT), (&drop_in, paths.as_str()), (&installed.config, text.as_str())] {
            fs::write(path, text).map_err(Failure::file(path))?;
        }
        run(&["daemon-reload"])?;
        Ok(installed)
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        if let Err(error) = systemctl(&["stop", &format!("{NAME}.service")]) {
            self.problems.add(error.to_string());
        }
        let _ = fs::remove_dir_all(&self.files);
        let _ = fs::remove_file(self.files.with_extension(""));
        let _ = fs::remove_file(&self.config);
        let _ = systemctl(&["daemon-reload"]);
    }
}

fn socket() -> PathBuf {
    PathBuf::from(format!("/run/{NAME}/nodewarden.sock"))
}

fn run(arguments: &[&str]) -> Result<String, Failure> {
    systemctl(arguments).map_err(|error| Failure::Unexpected(error.to_string()))
}

/// Starts the unit and waits until its agent answers. Returns the topics that are not on, with the state and
/// reason of each.
fn start() -> Result<Vec<(String, String, String)>, Failure> {
    run(&["start", &format!("{NAME}.service")])?;
    let status = eventually(Duration::from_secs(60), "the agent of the unit does not answer", || {
        // Nothing listens there yet.
        let Ok(client) = Client::connect(&socket()) else { return Ok(None) };
        Ok(client.status().ok())
    })?;
    ensure!(!status.topics.is_empty(), "no topics");
    let reduced = status.topics.into_iter().filter(|topic| topic.state != "on");
    Ok(reduced.map(|topic| (topic.topic, topic.state, topic.reason)).collect())
}

/// Where the kernel shows no addresses to the agent, the topic oom is partial and says why; the others are
/// on.
fn without_addresses(context: &Context) -> Result<(), Failure> {
    let _installed = Installed::new(context, "CapabilityBoundingSet=~CAP_SYSLOG")?;
    let reduced = start()?;
    let [(topic, state, reason)] = &reduced[..] else {
        return Err(Failure::Unexpected(format!("topics that are not on: {reduced:?}")));
    };
    ensure_eq!((topic.as_str(), state.as_str()), ("oom", "partial"), "topic and state ({reason})");
    ensure!(reason.contains("scope unknown") && reason.contains("/proc/kallsyms"), "reason: {reason}");
    Ok(())
}

/// With the capabilities of the unit every topic is on, and the threads that must not wait have their
/// priority.
fn everything_on(context: &Context) -> Result<(), Failure> {
    let _installed = Installed::new(context, "")?;
    let unit = format!("{NAME}.service");
    let reduced = start()?;
    ensure!(reduced.is_empty(), "topics that are not on: {reduced:?}");

    let pid = run(&["show", "--property=MainPID", "--value", &unit])?;
    let niced = niced_threads(pid.trim())?;
    ensure!(niced >= 2, "{niced} threads have nice −20: the two readers of events should have it");
    let number = pid.trim().parse().map_err(|_| Failure::Unexpected(format!("MainPID is {pid:?}")))?;
    let client = Client::connect(&socket())?;
    let held = privileges::check(number, &client)?;
    ensure!(
        !held.has(Privilege::CapPerfmon) && !held.has(Privilege::CapNetAdmin),
        "held after the start: {held}"
    );
    let active = run(&["show", "--property=NRestarts", "--value", &unit])?;
    ensure_eq!(active.trim(), "0", "restarts of the unit");
    Ok(())
}

/// How many threads of a process have nice −20.
fn niced_threads(pid: &str) -> Result<usize, Failure> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let entries = fs::read_dir(&tasks).map_err(Failure::file(&tasks))?;
    let nice = |path: &Path| -> Option<i32> {
        let text = fs::read_to_string(path.join("stat")).ok()?;
        // proc_pid_stat(5): field 19; the command, field 2, may contain anything.
        text.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
    };
    Ok(entries.flatten().filter(|entry| nice(&entry.path()) == Some(-20)).count())
}
