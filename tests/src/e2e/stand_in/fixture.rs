//! An agent in mode manage on a stand-in for a runtime, and its manifests.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::e2e::pods::manifest::pod;
use crate::fixture::{Agent, AgentOptions, Manage, PAUSE_IMAGE, RuntimeFaults, StandInRuntime, TestRoot};
use crate::harness::{Context, Failure};

/// How long the agent may take to end, in seconds.
const LIMIT: u64 = 30;
/// Containers of each pod.
pub const CONTAINERS: usize = 2;

/// The parts of it. Dropped in this order: an agent would start pods again, and the stand-in's processes are
/// in the cgroups.
pub struct Scale<'c> {
    agent: Agent,
    options: AgentOptions,
    runtime: StandInRuntime,
    root: TestRoot,
    manifests: PathBuf,
    /// Whether containers are started again when they have ended.
    restarts: bool,
    context: &'c Context,
}

impl<'c> Scale<'c> {
    /// # Errors
    /// The agent or the stand-in does not start.
    pub fn new(context: &'c Context, name: &str, faults: RuntimeFaults) -> Result<Self, Failure> {
        let root = TestRoot::named(context, &format!("-{name}"))?;
        let [manifests, logs] =
            ["manifests", "pod-logs"].map(|kind| context.temp.join(&format!("{kind}-{name}")));
        std::fs::create_dir_all(&manifests).map_err(Failure::file(&manifests))?;
        let runtime = StandInRuntime::start(context, name, faults)?;
        let manage = Manage {
            manifests: manifests.clone(),
            root: root.group().path().to_owned(),
            driver: "cgroupfs",
            reconcile_seconds: 60,
            kubelet: format!("podLogsDir: {}\nfailSwapOn: false\nmaxPods: 1100\n", logs.display()),
            section: format!("nodeName: \"stand-in-{name}\"\n"),
        };
        let options = AgentOptions {
            runtime: Some(runtime.socket().to_owned()),
            state: Some(context.temp.join(&format!("scale-state-{name}"))),
            manage: Some(manage),
            ..AgentOptions::default()
        };
        let agent = Agent::start(context, &options)?;
        // Where starts fail, the pods are those that are started once.
        Ok(Self { agent, options, runtime, root, manifests, restarts: !faults.cut_starts, context })
    }

    /// Ends the agent and starts it again, with further lines of the kubelet's configuration. Returns how
    /// long the start took until the agent was ready.
    ///
    /// # Errors
    /// It does not end or start.
    pub fn restart(&mut self, kubelet: &str) -> Result<Duration, Failure> {
        self.agent.end(Signal::SIGTERM, self.context.patiently(LIMIT))?;
        if let Some(manage) = &mut self.options.manage {
            manage.kubelet.push_str(kubelet);
        }
        let begun = Instant::now();
        self.agent = Agent::start(self.context, &self.options)?;
        Ok(begun.elapsed())
    }

    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    pub fn runtime(&self) -> &StandInRuntime {
        &self.runtime
    }

    /// The cgroup that all of its pods are below.
    pub fn root(&self) -> &TestRoot {
        &self.root
    }

    /// Writes the manifests of so many pods. Returns how long it took until every container ran.
    ///
    /// # Errors
    /// A file cannot be written, or a container does not run.
    pub fn start(&self, pods: usize, limit: Duration) -> Result<Duration, Failure> {
        let begun = Instant::now();
        for number in 0..pods {
            self.put(&name_of(number), &limits())?;
        }
        let wanted = (pods * CONTAINERS) as u64;
        let up = self.runtime.wait_until(limit, "all containers run", |notes| notes.running >= wanted)?;
        Ok(up.duration_since(begun))
    }

    /// Writes the manifest of a pod whose containers have these limits.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn put(&self, name: &str, limits: &Value) -> Result<(), Failure> {
        let (temporary, path) = (self.manifests.join(format!(".{name}")), self.path(name));
        std::fs::write(&temporary, manifest(name, self.restarts, limits).to_string())
            .map_err(Failure::file(&temporary))?;
        std::fs::rename(&temporary, &path).map_err(Failure::file(&path))
    }

    /// Removes the manifest of a pod.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        let path = self.path(name);
        std::fs::remove_file(&path).map_err(Failure::file(&path))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.manifests.join(format!("{name}.json"))
    }

    /// Removes every manifest and waits until nothing runs.
    ///
    /// # Errors
    /// A file cannot be removed, or a sandbox stays.
    pub fn clear(&self, limit: Duration) -> Result<(), Failure> {
        let entries = std::fs::read_dir(&self.manifests).map_err(Failure::file(&self.manifests))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            std::fs::remove_file(&path).map_err(Failure::file(&path))?;
        }
        let gone = self
            .runtime
            .wait_until(limit * self.context.patience, "all pods gone", |notes| notes.sandboxes == 0);
        gone.map(drop)
    }
}

/// The manifests of [`Scale::start`].
pub fn manifests(pods: usize) -> Vec<Value> {
    (0..pods).map(|number| manifest(&name_of(number), true, &limits())).collect()
}

fn name_of(number: usize) -> String {
    format!("pod-{number:04}")
}

fn limits() -> Value {
    json!({ "memory": "16Mi" })
}

/// A Burstable pod on the machine's network whose containers sleep.
fn manifest(name: &str, restarts: bool, limits: &Value) -> Value {
    let container = |number: usize| {
        json!({
            "name": format!("c{number}"),
            "image": PAUSE_IMAGE,
            "imagePullPolicy": "Never",
            // So little that a thousand pods fit on a node whose hard threshold is near what is available.
            "resources": { "requests": { "memory": "256Ki" }, "limits": limits },
        })
    };
    let policy = if restarts { "Always" } else { "Never" };
    let containers: Vec<_> = (0..CONTAINERS).map(container).collect();
    pod(name, json!({ "restartPolicy": policy, "containers": containers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_a_valid_pod() {
        let pods = nodewarden_manifest::manifest::parse(&manifest("p1", true, &json!({})).to_string());
        assert!(!pods.is_empty() && pods.into_iter().all(|pod| pod.is_ok()));
    }
}
