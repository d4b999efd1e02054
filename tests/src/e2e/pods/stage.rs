//! What most tests of pods stand on: a container runtime, a manifest directory, and an agent that runs it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::SystemTime;

use nix::sys::signal::Signal;
use nodewarden_proto::nodewarden::v1::PodCgroup;
use nodewarden_proto::nodewarden::v1::event::Detail;
use serde_json::Value;

use super::seen::Seen;
use crate::e2e::hierarchy::managed::{Driver, Managed, status};
use crate::e2e::support::{eventually, since};
use crate::ensure_eq;
use crate::fixture::{Agent, Containerd, Cri, mounts_below, unmount_below};
use crate::harness::{Context, Failure};

/// Waits of a container that fails again and again, short enough to watch.
pub const SHORT_BACKOFF: &str = "crashLoopBackOffInitialSeconds: 1";

/// All of it. [`Stage::finish`] ends a test that has come to its end: it looks for what the agent left.
pub struct Stage<'c> {
    context: &'c Context,
    agent: Option<Agent>,
    containerd: Containerd,
    cri: Cri,
    managed: Managed<'c>,
    driver: Driver,
    names: Vec<String>,
}

impl<'c> Stage<'c> {
    /// With the usual settings.
    pub fn new(context: &'c Context) -> Result<Self, Failure> {
        Self::with(context, "", "")
    }

    /// `kubelet` are more lines of the kubelet's configuration, `section` of ours.
    pub fn with(context: &'c Context, kubelet: &str, section: &str) -> Result<Self, Failure> {
        let containerd = Containerd::start(context)?;
        let socket = containerd.socket().to_owned();
        Self::on(context, containerd, &socket, kubelet, section)
    }

    /// The same on this runtime, which the agent reaches at `socket`.
    pub fn on(
        context: &'c Context,
        containerd: Containerd,
        socket: &Path,
        kubelet: &str,
        section: &str,
    ) -> Result<Self, Failure> {
        let cri = Cri::connect(containerd.socket())?;
        let driver = if cri.uses_systemd()? { Driver::Systemd } else { Driver::Cgroupfs };
        let managed = Managed::new(context, driver, 60, &kubelet_lines(context, kubelet))?
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

    /// Where the runtime looks for CDI specifications.
    pub fn cdi_folder(&self) -> PathBuf {
        self.containerd.cdi_folder()
    }

    pub fn managed(&self) -> &Managed<'c> {
        &self.managed
    }

    /// # Errors
    /// It has been killed.
    pub fn agent(&self) -> Result<&Agent, Failure> {
        self.agent.as_ref().ok_or_else(|| Failure::Unexpected("the agent was killed".into()))
    }

    /// Makes or replaces manifests, each in a file called as its pod.
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

    /// A manifest that somebody else has removed.
    pub fn forget(&mut self, name: &str) {
        self.names.retain(|known| known != name);
    }

    /// Every pod as the agent shows it.
    pub fn pods(&self) -> Result<Vec<Seen>, Failure> {
        let answer = self.agent()?.get("/pods")?;
        ensure_eq!(answer.status, 200, "GET /pods: {}", answer.text());
        Seen::list(&answer.text())
    }

    /// A pod by its name.
    pub fn pod(&self, name: &str) -> Result<Option<Seen>, Failure> {
        Ok(self.pods()?.into_iter().find(|pod| pod.name() == name))
    }

    /// Waits until a pod is as `wanted` says, and shows it as it was last if it does not come to that.
    pub fn until(
        &self,
        name: &str,
        what: &str,
        seconds: u64,
        wanted: impl Fn(&Seen) -> bool,
    ) -> Result<Seen, Failure> {
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

    /// Waits until all of a pod runs.
    pub fn up(&self, name: &str) -> Result<Seen, Failure> {
        self.until(name, "up", 30, Seen::is_up)
    }

    /// Waits for a pod's end by itself: `Succeeded` or `Failed`.
    pub fn phase(&self, name: &str, phase: &str) -> Result<Seen, Failure> {
        self.until(name, phase, 30, |pod| pod.phase() == phase)
    }

    /// Waits until pods are no more.
    pub fn gone(&self, names: &[&str]) -> Result<(), Failure> {
        eventually(self.context.patiently(40), &format!("{names:?} are still there"), || {
            let pods = self.pods()?;
            Ok((!pods.iter().any(|pod| names.contains(&pod.name()))).then_some(()))
        })
    }

    /// Where a pod's logs are: the kubelet's layout.
    pub fn log_dir(&self, pod: &Seen) -> PathBuf {
        let folder = format!("default_{}_{}", pod.name(), pod.uid());
        self.context.temp.join("pod-logs").join(folder)
    }

    /// What one run of a container printed, as soon as it has printed `until`.
    pub fn log_until(&self, pod: &Seen, container: &str, run: u32, until: &str) -> Result<String, Failure> {
        let path = self.log_dir(pod).join(container).join(format!("{run}.log"));
        let mut last = String::new();
        let found = eventually(self.context.patiently(20), "", || {
            last = std::fs::read_to_string(&path).map(|text| plain(&text)).unwrap_or_default();
            Ok(last.contains(until).then(|| last.clone()))
        });
        found.map_err(|_| Failure::Unexpected(format!("{} has no {until:?} in it: {last:?}", path.display())))
    }

    /// `key=value` lines that a container printed before the line `done`.
    pub fn told(&self, pod: &Seen, container: &str) -> Result<BTreeMap<String, String>, Failure> {
        let text = self.log_until(pod, container, 0, "done\n")?;
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// Where a pod's cgroup is.
    pub fn cgroup(&self, pod: &Seen) -> Result<String, Failure> {
        let found = self.cgroups()?.into_iter().find(|cgroup| cgroup.uid == pod.uid());
        let found = found.map(|cgroup| cgroup.path);
        found.ok_or_else(|| Failure::Unexpected(format!("no cgroup of pod {}", pod.name())))
    }

    fn cgroups(&self) -> Result<Vec<PodCgroup>, Failure> {
        Ok(status(self.agent()?)?.pods)
    }

    /// Where a container's cgroup is.
    pub fn container_cgroup(&self, pod: &Seen, container: &str) -> Result<String, Failure> {
        let (above, id) = (self.cgroup(pod)?, pod.container(container)?.id().to_owned());
        Ok(match self.driver {
            Driver::Cgroupfs => format!("{above}/{id}"),
            Driver::Systemd => format!("{above}/cri-containerd-{id}.scope"),
        })
    }

    /// A folder of the pod's below the agent's state.
    pub fn home_of(&self, pod: &Seen) -> Result<PathBuf, Failure> {
        Ok(self.agent()?.state().join("pods").join(pod.uid()))
    }

    /// Messages of a pod's events of this reason that are in the journal since a time.
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

    /// Runs the command line.
    pub fn command(&self, arguments: &[&str]) -> Result<Output, Failure> {
        Ok(self.agent()?.command(arguments)?)
    }

    /// Kills the agent: its pods go on.
    pub fn kill_agent(&mut self) -> Result<(), Failure> {
        if let Some(mut agent) = self.agent.take() {
            agent.end(Signal::SIGKILL, self.context.patiently(20))?;
        }
        Ok(())
    }

    /// Asks the agent to end: its pods go on.
    pub fn stop_agent(&mut self) {
        // Dropping it asks, and notes an end that is not clean.
        self.agent = None;
    }

    /// From now on agents start with these lines of the kubelet's configuration.
    pub fn set_kubelet(&mut self, lines: &str) {
        self.managed.set_kubelet(&kubelet_lines(self.context, lines));
    }

    /// Starts another one with what the last one left.
    pub fn start_agent(&mut self) -> Result<(), Failure> {
        self.agent = Some(self.managed.start()?);
        Ok(())
    }

    /// containerd ends and comes again; what is done `meanwhile` finds it gone.
    pub fn containerd_away(
        &mut self,
        meanwhile: impl FnOnce(&Agent) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let agent = self.agent.as_ref().ok_or_else(|| Failure::Unexpected("the agent was killed".into()))?;
        self.containerd.while_stopped(|| meanwhile(agent))
    }

    /// Removes every manifest; then nothing of the pods may be left.
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
        clean
            .map_err(|_| Failure::Unexpected(format!("left of pods without a manifest: {}", last.join(", "))))
    }

    /// Everything of pods that there is now.
    fn left(&self) -> Result<Vec<String>, Failure> {
        let state = self.agent()?.state().to_owned();
        let named =
            |what: &'static str, all: Vec<String>| all.into_iter().map(move |one| format!("{what} {one}"));
        let pods = self.pods()?.iter().map(|pod| pod.name().to_owned()).collect();
        let status = status(self.agent()?)?;
        let cgroups = status.pods.into_iter().chain(status.removing).map(|cgroup| cgroup.path).collect();
        let mounts = mounts_below(&state).iter().map(|path| path.display().to_string()).collect();
        Ok(named("pod", pods)
            .chain(named("cgroup", cgroups))
            .chain(named("sandbox", self.cri.sandboxes()?))
            .chain(named("mount", mounts))
            .chain(named("directory", entries(&state.join("pods"))))
            .chain(named("record", entries(&state.join("records"))))
            .collect())
    }
}

impl Drop for Stage<'_> {
    /// The agent first: it would make pods anew. Volumes of pods that are still there are ours to unmount.
    fn drop(&mut self) {
        self.agent = None;
        for path in unmount_below(&self.context.temp.join("managed-state")) {
            self.context.problems().add(format!("{} is still mounted", path.display()));
        }
    }
}

fn kubelet_lines(context: &Context, more: &str) -> String {
    let logs = context.temp.join("pod-logs");
    format!("podLogsDir: {}\nfailSwapOn: false\n{more}", logs.display())
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().display().to_string()).collect()
}

/// The text of a log in CRI's form: `time stream F text` a line; P where the line goes on.
fn plain(log: &str) -> String {
    let mut text = String::new();
    for line in log.lines() {
        let mut fields = line.splitn(4, ' ');
        let (Some(_), Some(_), Some(tag), Some(said)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        text.push_str(said);
        if tag == "F" {
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_log_without_its_form() {
        let log = "2026-01-01T00:00:00Z stdout F one two\n2026-01-01T00:00:00Z stderr P thr\n\
                   2026-01-01T00:00:00Z stderr F ee\n2026-01-01T00:00:00Z stdout F \nbroken\n";
        assert_eq!(super::plain(log), "one two\nthree\n\n");
    }
}
