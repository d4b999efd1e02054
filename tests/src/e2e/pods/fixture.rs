//! The fixture of most tests with pods: a container runtime, a manifest directory, and an agent that runs its
//! pods.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::SystemTime;

use nix::sys::signal::Signal;
use nodewarden_proto::nodewarden::v1::PodCgroup;
use nodewarden_proto::nodewarden::v1::event::Detail;
use serde_json::Value;

use super::listed::ListedPod;
use crate::e2e::hierarchy::fixture::{Driver, HierarchyFixture, status};
use crate::e2e::support::{eventually, since};
use crate::ensure_eq;
use crate::fixture::{Agent, Containerd, Cri, mounts_below, unmount_below};
use crate::harness::{Context, Failure};

/// Configuration with short back-offs of a crashing container.
pub const SHORT_BACKOFF: &str = "crashLoopBackOffInitialSeconds: 1";

/// The runtime, the manifests and the agent. A test calls [`PodFixture::finish`] at its end, which looks for
/// leftovers.
pub struct PodFixture<'c> {
    context: &'c Context,
    agent: Option<Agent>,
    containerd: Containerd,
    cri: Cri,
    managed: HierarchyFixture<'c>,
    driver: Driver,
    names: Vec<String>,
}

impl<'c> PodFixture<'c> {
    /// With the default configuration.
    pub fn new(context: &'c Context) -> Result<Self, Failure> {
        Self::with_config(context, "", "")
    }

    /// `kubelet` are further lines of the kubelet's configuration, `section` of nodewarden's own.
    pub fn with_config(context: &'c Context, kubelet: &str, section: &str) -> Result<Self, Failure> {
        let containerd = Containerd::start(context)?;
        let socket = containerd.socket().to_owned();
        Self::with_runtime(context, containerd, &socket, kubelet, section)
    }

    /// The same with this runtime, which the agent reaches at `socket`.
    pub fn with_runtime(
        context: &'c Context,
        containerd: Containerd,
        socket: &Path,
        kubelet: &str,
        section: &str,
    ) -> Result<Self, Failure> {
        let cri = Cri::connect(containerd.socket())?;
        let driver = if cri.uses_systemd()? { Driver::Systemd } else { Driver::Cgroupfs };
        let managed = HierarchyFixture::new(context, driver, 60, &kubelet_lines(context, kubelet))?
            .with_runtime(socket)
            .with_section(&format!("nodeName: stage\n{section}"));
        let agent = Some(managed.start()?);
        Ok(Self { context, agent, containerd, cri, managed, driver, names: Vec::new() })
    }

    pub fn context(&self) -> &'c Context {
        self.context
    }

    pub fn cri(&self) -> &Cri {
        &self.cri
    }

    pub fn containerd(&self) -> &Containerd {
        &self.containerd
    }

    /// The directory in which the runtime looks for CDI specifications.
    pub fn cdi_folder(&self) -> PathBuf {
        self.containerd.cdi_folder()
    }

    pub fn managed(&self) -> &HierarchyFixture<'c> {
        &self.managed
    }

    /// # Errors
    /// The agent has been killed.
    pub fn agent(&self) -> Result<&Agent, Failure> {
        self.agent.as_ref().ok_or_else(|| Failure::Unexpected("the agent was killed".into()))
    }

    /// Writes or replaces manifests, each in a file with the name of its pod.
    pub fn put<const N: usize>(&mut self, pods: [Value; N]) -> Result<(), Failure> {
        pods.into_iter().try_for_each(|pod| {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            self.managed.write(&name, &pod)?;
            if !self.names.contains(&name) {
                self.names.push(name);
            }
            Ok(())
        })
    }

    /// Removes a pod's manifest.
    pub fn remove(&mut self, name: &str) -> Result<(), Failure> {
        self.names.retain(|known| known != name);
        self.managed.remove(name)
    }

    /// Forgets a manifest that the test has removed in another way.
    pub fn forget(&mut self, name: &str) {
        self.names.retain(|known| known != name);
    }

    /// Every pod that the agent lists.
    pub fn list_pods(&self) -> Result<Vec<ListedPod>, Failure> {
        let answer = self.agent()?.get("/pods")?;
        ensure_eq!(answer.status, 200, "GET /pods: {}", answer.text());
        ListedPod::list(&answer.text())
    }

    /// The listed pod of this name.
    pub fn pod(&self, name: &str) -> Result<Option<ListedPod>, Failure> {
        Ok(self.list_pods()?.into_iter().find(|pod| pod.name() == name))
    }

    /// Waits until `wanted` is true of a pod. The failure has `what` and the pod's last status.
    pub fn wait_until(
        &self,
        name: &str,
        what: &str,
        seconds: u64,
        wanted: impl Fn(&ListedPod) -> bool,
    ) -> Result<ListedPod, Failure> {
        let mut last = None;
        let found = eventually(self.context.patiently(seconds), "", || {
            last = self.pod(name)?;
            Ok(last.clone().filter(&wanted))
        });
        found.map_err(|failure| {
            let seen = last.map_or_else(|| "not there".to_owned(), |pod| pod.0["status"].to_string());
            Failure::Unexpected(format!("pod {name} is not {what}{failure}: {seen}"))
        })
    }

    /// Waits until every container of a pod is running and ready.
    pub fn wait_up(&self, name: &str) -> Result<ListedPod, Failure> {
        self.wait_until(name, "up", 30, ListedPod::is_up)
    }

    /// Waits until a pod has a phase, such as `Succeeded`.
    pub fn wait_phase(&self, name: &str, phase: &str) -> Result<ListedPod, Failure> {
        self.wait_until(name, phase, 30, |pod| pod.phase() == phase)
    }

    /// Waits until these pods are not listed any more.
    pub fn wait_gone(&self, names: &[&str]) -> Result<(), Failure> {
        eventually(self.context.patiently(40), &format!("{names:?} are still there"), || {
            let pods = self.list_pods()?;
            Ok((!pods.iter().any(|pod| names.contains(&pod.name()))).then_some(()))
        })
    }

    /// The directory of a pod's logs, in the kubelet's layout.
    pub fn log_dir(&self, pod: &ListedPod) -> PathBuf {
        let folder = format!("default_{}_{}", pod.name(), pod.uid());
        self.context.temp.join("pod-logs").join(folder)
    }

    /// Waits until run number `run` of a container has printed `until`, and returns everything that it
    /// printed.
    pub fn log_until(
        &self,
        pod: &ListedPod,
        container: &str,
        run: u32,
        until: &str,
    ) -> Result<String, Failure> {
        let path = self.log_dir(pod).join(container).join(format!("{run}.log"));
        let mut last = String::new();
        let found = eventually(self.context.patiently(20), "", || {
            last = std::fs::read_to_string(&path).map(|text| log_text(&text)).unwrap_or_default();
            Ok(last.contains(until).then(|| last.clone()))
        });
        found.map_err(|_| Failure::Unexpected(format!("{} has no {until:?} in it: {last:?}", path.display())))
    }

    /// `key=value` lines that a container printed before the line `done`.
    pub fn printed_values(
        &self,
        pod: &ListedPod,
        container: &str,
    ) -> Result<BTreeMap<String, String>, Failure> {
        let text = self.log_until(pod, container, 0, "done\n")?;
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// The path of a pod's cgroup.
    pub fn cgroup(&self, pod: &ListedPod) -> Result<String, Failure> {
        let found = self.cgroups()?.into_iter().find(|cgroup| cgroup.uid == pod.uid());
        let found = found.map(|cgroup| cgroup.path);
        found.ok_or_else(|| Failure::Unexpected(format!("no cgroup of pod {}", pod.name())))
    }

    fn cgroups(&self) -> Result<Vec<PodCgroup>, Failure> {
        Ok(status(self.agent()?)?.pods)
    }

    /// The path of a container's cgroup.
    pub fn container_cgroup(&self, pod: &ListedPod, container: &str) -> Result<String, Failure> {
        let (above, id) = (self.cgroup(pod)?, pod.container(container)?.id().to_owned());
        Ok(match self.driver {
            Driver::Cgroupfs => format!("{above}/{id}"),
            Driver::Systemd => format!("{above}/cri-containerd-{id}.scope"),
        })
    }

    /// The pod's directory in the agent's state directory.
    pub fn pod_dir(&self, pod: &ListedPod) -> Result<PathBuf, Failure> {
        Ok(self.agent()?.state().join("pods").join(pod.uid()))
    }

    /// Messages of a pod's events in the journal since `begin` with this reason.
    pub fn notes(&self, name: &str, reason: &str, begin: SystemTime) -> Result<Vec<String>, Failure> {
        // The stream ends by itself.
        let quiet = self.context.patiently(10);
        let client = self.agent()?.client()?;
        let events = client
            .watch(since(begin, &["pod"]))?
            .collect(quiet, quiet, |event| event.pod.as_ref().is_some_and(|pod| pod.name == name))?;
        let notes = events.into_iter().filter_map(|received| match received.event.detail {
            Some(Detail::PodNote(note)) if note.reason == reason => Some(note.message),
            _ => None,
        });
        Ok(notes.collect())
    }

    /// Runs a command of nodewarden's command line against the agent.
    pub fn command(&self, arguments: &[&str]) -> Result<Output, Failure> {
        Ok(self.agent()?.command(arguments)?)
    }

    /// Kills the agent; its pods keep running.
    pub fn kill_agent(&mut self) -> Result<(), Failure> {
        if let Some(mut agent) = self.agent.take() {
            agent.end(Signal::SIGKILL, self.context.patiently(20))?;
        }
        Ok(())
    }

    /// Ends the agent by SIGTERM; its pods keep running.
    pub fn stop_agent(&mut self) {
        // Dropping it sends SIGTERM, and records an exit status other than 0.
        self.agent = None;
    }

    /// Agents started from now on have these further lines of the kubelet's configuration.
    pub fn set_kubelet(&mut self, lines: &str) {
        self.managed.set_kubelet(&kubelet_lines(self.context, lines));
    }

    /// Agents started from now on have their pods below a new cgroup. Returns the cgroup of the pods before.
    pub fn move_root(&mut self, below: &str) -> Result<String, Failure> {
        self.managed.move_root(below)
    }

    /// The runtime, and agents started from now on, have systemd make the cgroups. What runs stays as it is.
    pub fn use_systemd(&mut self) -> Result<(), Failure> {
        self.containerd.use_systemd()?;
        self.managed.use_systemd();
        self.driver = Driver::Systemd;
        Ok(())
    }

    /// Agents started from now on read the machine's capacity every so many seconds.
    pub fn set_reconcile(&mut self, seconds: u64) {
        self.managed.set_reconcile(seconds);
    }

    /// Starts an agent with the state directory of the one before.
    pub fn start_agent(&mut self) -> Result<(), Failure> {
        self.agent = Some(self.managed.start()?);
        Ok(())
    }

    /// Stops containerd, calls `meanwhile`, and starts containerd again.
    pub fn without_containerd(
        &mut self,
        meanwhile: impl FnOnce(&Agent) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let agent = self.agent.as_ref().ok_or_else(|| Failure::Unexpected("the agent was killed".into()))?;
        self.containerd.while_stopped(|| meanwhile(agent))
    }

    /// Removes every manifest, and waits until nothing of the pods is left.
    pub fn finish(mut self) -> Result<(), Failure> {
        for name in std::mem::take(&mut self.names) {
            self.managed.remove(&name)?;
        }
        let limit = self.context.patiently(40);
        let mut last = Vec::new();
        let clean = eventually(limit, "", || {
            last = self.left()?;
            Ok(last.is_empty().then_some(()))
        });
        clean.map_err(|_| {
            Failure::Unexpected(format!("leftovers of pods without a manifest: {}", last.join(", ")))
        })
    }

    /// Everything of pods that exists now: listed pods, cgroups, sandboxes, mounts, directories and records.
    fn left(&self) -> Result<Vec<String>, Failure> {
        let state = self.agent()?.state().to_owned();
        let named =
            |what: &'static str, all: Vec<String>| all.into_iter().map(move |one| format!("{what} {one}"));
        let pods = self.list_pods()?.iter().map(|pod| pod.name().to_owned()).collect();
        let status = status(self.agent()?)?;
        let cgroups = status.pods.into_iter().chain(status.removing).map(|cgroup| cgroup.path).collect();
        // The directory itself may be a disk of the test.
        let mounts = mounts_below(&state).into_iter().filter(|path| *path != state);
        let mounts = mounts.map(|path| path.display().to_string()).collect();
        Ok(named("pod", pods)
            .chain(named("cgroup", cgroups))
            .chain(named("sandbox", self.cri.sandboxes()?))
            .chain(named("mount", mounts))
            .chain(named("directory", entries(&state.join("pods"))))
            .chain(named("record", entries(&state.join("records"))))
            .collect())
    }
}

impl Drop for PodFixture<'_> {
    /// Ends the agent first, which would recreate pods. Then unmounts volumes of pods that are still there.
    fn drop(&mut self) {
        self.agent = None;
        for folder in entries(&self.context.temp.join("managed-state")) {
            for path in unmount_below(Path::new(&folder)) {
                self.context.problems().add(format!("{} is still mounted", path.display()));
            }
        }
    }
}

/// The usual lines of the kubelet's configuration, then `more`.
fn kubelet_lines(context: &Context, more: &str) -> String {
    let logs = context.temp.join("pod-logs");
    format!("podLogsDir: {}\nfailSwapOn: false\n{more}", logs.display())
}

/// Paths of a directory's entries.
fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().display().to_string()).collect()
}

/// The text of a log in the CRI format: lines of `time stream F text`, with P for a line that continues.
fn log_text(log: &str) -> String {
    let mut text = String::new();
    for line in log.lines() {
        let mut fields = line.splitn(4, ' ');
        let (Some(_), Some(_), Some(tag), Some(text_of_line)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        text.push_str(text_of_line);
        if tag == "F" {
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn log_text_returns_the_text_of_a_cri_log() {
        let log = "2026-01-01T00:00:00Z stdout F one two\n2026-01-01T00:00:00Z stderr P thr\n\
                   2026-01-01T00:00:00Z stderr F ee\n2026-01-01T00:00:00Z stdout F \nbroken\n";
        assert_eq!(super::log_text(log), "one two\nthree\n\n");
    }
}
