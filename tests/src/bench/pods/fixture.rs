//! An agent in mode manage on a private containerd, for benches.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nodewarden_pods::source::manifests::Manifests;
use serde_json::Value;

use super::bare::NODE;
use super::evidence::{Evidence, now};
use crate::e2e::hierarchy::fixture::status;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::support::eventually;
use crate::ensure;
use crate::fixture::{Agent, AgentOptions, Manage, TestRoot};
use crate::harness::{Context, Failure};

/// The agent and its manifests.
pub struct PodsFixture<'c> {
    // Dropped first, because it would restart pods.
    agent: Agent,
    options: AgentOptions,
    root: TestRoot,
    manifests: PathBuf,
    context: &'c Context,
}

impl<'c> PodsFixture<'c> {
    /// # Errors
    /// The agent does not become ready.
    pub fn new(context: &'c Context, socket: &Path, reconcile: Duration) -> Result<Self, Failure> {
        let root = TestRoot::new(context)?;
        let [manifests, logs] = ["manifests", "pod-logs"].map(|name| context.temp.join(name));
        std::fs::create_dir_all(&manifests).map_err(Failure::file(&manifests))?;
        let manage = Manage {
            manifests: manifests.clone(),
            root: root.group().path().to_owned(),
            driver: "cgroupfs",
            reconcile_seconds: reconcile.as_secs(),
            kubelet: format!("podLogsDir: {}\nfailSwapOn: false\nmaxPods: 1000\n", logs.display()),
            section: format!("nodeName: {NODE}\n"),
        };
        let options = AgentOptions {
            runtime: Some(socket.to_owned()),
            manage: Some(manage),
            state: Some(context.temp.join("state")),
            ..AgentOptions::default()
        };
        Ok(Self { agent: Agent::start(context, &options)?, options, root, manifests, context })
    }

    /// Kills the agent and starts another one with its state. Returns the time from its start until it is
    /// ready.
    ///
    /// # Errors
    /// It does not end, or the next one does not become ready.
    pub fn restart(&mut self) -> Result<Duration, Failure> {
        self.agent.end(Signal::SIGKILL, Duration::from_secs(20))?;
        let begun = Instant::now();
        self.agent = Agent::start(self.context, &self.options)?;
        Ok(begun.elapsed())
    }

    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Writes manifests. Returns the time before the first write.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn put(&self, pods: &[Value]) -> Result<Duration, Failure> {
        let begun = now()?;
        pods.iter().try_for_each(|pod| self.write(name(pod), pod))?;
        Ok(begun)
    }

    /// Removes manifests. Returns how long it took until all of the pods' cgroups were gone.
    ///
    /// # Errors
    /// A file cannot be removed, or a cgroup stays.
    pub fn remove(&self, pods: &[String], evidence: &Evidence) -> Result<Duration, Failure> {
        let mut cgroups = Vec::new();
        for pod in pods {
            cgroups.extend(self.cgroups(pod)?);
        }
        let begun = Instant::now();
        for pod in pods {
            let path = self.manifest(pod);
            std::fs::remove_file(&path).map_err(Failure::file(&path))?;
        }
        evidence.all_gone(cgroups)?;
        Ok(begun.elapsed())
    }

    /// Removes every manifest and waits until the agent has ended all pods.
    ///
    /// # Errors
    /// A file cannot be removed, or a pod stays.
    pub fn clear(&self, limit: Duration) -> Result<(), Failure> {
        let entries = std::fs::read_dir(&self.manifests).map_err(Failure::file(&self.manifests))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            std::fs::remove_file(&path).map_err(Failure::file(&path))?;
        }
        eventually(limit, "pods without a manifest are still there", || {
            let answer = self.agent.get("/pods")?;
            let pods = ListedPod::list(&answer.text())?;
            let hierarchy = status(&self.agent)?;
            Ok((pods.is_empty() && hierarchy.pods.is_empty() && hierarchy.removing.is_empty()).then_some(()))
        })
    }

    /// Writes a manifest atomically, by renaming a temporary file.
    fn write(&self, pod: &str, manifest: &Value) -> Result<(), Failure> {
        let temporary = self.manifests.join(format!(".{pod}"));
        std::fs::write(&temporary, manifest.to_string()).map_err(Failure::file(&temporary))?;
        std::fs::rename(&temporary, self.manifest(pod)).map_err(Failure::file(&temporary))
    }

    fn manifest(&self, pod: &str) -> PathBuf {
        self.manifests.join(format!("{pod}.json"))
    }

    /// The existing directories of a pod's cgroup.
    fn cgroups(&self, pod: &str) -> Result<Vec<PathBuf>, Failure> {
        let path = self.manifest(pod);
        let read = Manifests::at(&path, NODE);
        let uid = read.pods.first().map(|sourced| sourced.pod.uid.clone()).unwrap_or_default();
        let cgroup = format!("{}/kubepods/burstable/pod{uid}", self.root.group().path());
        let hierarchies = self.context.layout.hierarchies().iter();
        let directories: Vec<_> = hierarchies
            .map(|h| h.mount.join(cgroup.trim_start_matches('/')))
            .filter(|dir| dir.is_dir())
            .collect();
        ensure!(!directories.is_empty(), "no cgroup {cgroup} of pod {pod}");
        Ok(directories)
    }
}

/// The pod's name in a manifest.
pub fn name(manifest: &Value) -> &str {
    manifest["metadata"]["name"].as_str().unwrap_or_default()
}
