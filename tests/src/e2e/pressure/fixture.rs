//! The fixture for tests of pressure: an agent whose pods share a limited pool of memory, pods that use
//! memory as ordered, and the agent's decisions.

use std::time::SystemTime;

use jiff::Timestamp;
use nodewarden_model::Decision;
use serde_json::{Value, json};

use crate::e2e::pods::fixture::PodFixture;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::pods::manifest::{merged, pod, shell};
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{Agent, Sample, ServerProgram, parse_samples, total_memory};
use crate::harness::{Context, Failure};
use crate::{ensure, ensure_eq};

/// Configuration with which evicted pods start again after a second.
pub const QUICK_RESTART: &str = "eviction: {backOffSeconds: 1, maxBackOffSeconds: 1}";
/// Seconds that a condition stays after its cause has ended.
pub const TRANSITION_S: u64 = 2;
/// Thresholds that switch off the signals of disks.
pub const NO_DISKS: &str =
    "nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%";

/// MiB of memory for all pods together: few enough for a guest.
pub const POOL_MIB: u64 = 400;
/// MiB of it available at the threshold.
pub const LEFT_MIB: u64 = 150;

/// Lines of the kubelet's configuration with which all pods together have [`POOL_MIB`], and are evicted when
/// less than `left` MiB of it are available; `more` are further lines.
pub fn pool_config(left: u64, more: &str) -> Result<String, Failure> {
    let reserved = total_memory()? - POOL_MIB * MIB;
    Ok(format!(
        "systemReserved: {{memory: '{reserved}'}}\n\
         evictionHard: {{memory.available: {left}Mi, {NO_DISKS}}}\n\
         evictionPressureTransitionPeriod: {TRANSITION_S}s\n{more}"
    ))
}

/// Pods with servers that use memory, processes or files as ordered.
pub struct PressureFixture<'c> {
    pub pods: PodFixture<'c>,
    pub program: ServerProgram,
    pub begun: SystemTime,
}

impl<'c> PressureFixture<'c> {
    /// With these lines of the kubelet's configuration and of nodewarden's own section.
    pub fn new(context: &'c Context, kubelet: &str, section: &str) -> Result<Self, Failure> {
        Ok(Self {
            program: ServerProgram::new(context)?,
            begun: SystemTime::now(),
            pods: PodFixture::with_config(context, kubelet, section)?,
        })
    }

    /// With the pool, and evicted pods that start again soon.
    pub fn with_pool(context: &'c Context, left: u64, more: &str) -> Result<Self, Failure> {
        Self::new(context, &pool_config(left, more)?, QUICK_RESTART)
    }

    pub fn context(&self) -> &'c Context {
        self.pods.context()
    }

    /// A pod whose container `c` uses resources as ordered; `arguments` are further ones of its server,
    /// `spec` further fields of the pod.
    pub fn greedy(&self, name: &str, resources: Value, arguments: &[&str], spec: Value) -> Value {
        greedy(&self.program, name, resources, arguments, spec)
    }

    /// Orders a pod to hold `mib` MiB of memory, and waits until it does.
    pub fn hold(&self, name: &str, mib: u64) -> Result<(), Failure> {
        self.order_hold(name, mib)?;
        self.wait_held(name, mib)
    }

    /// Orders a pod to hold `mib` MiB of memory, and does not wait.
    pub fn order_hold(&self, name: &str, mib: u64) -> Result<(), Failure> {
        self.program.hold(name, mib * MIB, 0)
    }

    /// Waits until a pod holds `mib` MiB of memory.
    pub fn wait_held(&self, name: &str, mib: u64) -> Result<(), Failure> {
        let wanted = (mib * MIB).to_string();
        eventually(self.context().patiently(20), &format!("{name} does not hold {mib} MiB"), || {
            let noted = self.program.noted(name);
            let last = noted.iter().rev().find(|one| one.listener == "hold");
            Ok(last.is_some_and(|one| one.path == wanted && one.answer == "done").then_some(()))
        })
    }

    /// Writes manifests, and waits until all their pods are up.
    pub fn put_and_wait_up<const N: usize>(&mut self, pods: [Value; N]) -> Result<Vec<RunningPod>, Failure> {
        let names: Vec<_> =
            pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect();
        self.pods.put(pods)?;
        names.iter().map(|name| RunningPod::of(&self.pods.wait_up(name)?)).collect()
    }

    /// Waits until a pod is shown as evicted.
    pub fn wait_evicted(&self, name: &str) -> Result<ListedPod, Failure> {
        self.pods.wait_until(name, "evicted", 20, is_evicted)
    }

    /// Waits until a pod is pending with this reason. Returns the message.
    pub fn wait_pending(&self, name: &str, reason: &str) -> Result<String, Failure> {
        let waits = self.pods.wait_until(name, reason, 20, |seen| {
            seen.phase() == "Pending" && seen.text("/status/reason") == reason
        })?;
        Ok(waits.text("/status/message").to_owned())
    }

    /// Checks that these pods run unchanged.
    pub fn check_unchanged(&self, pods: &[RunningPod]) -> Result<(), Failure> {
        pods.iter().try_for_each(|alive| {
            let now = RunningPod::of(&self.pods.wait_up(&alive.name)?)?;
            ensure_eq!(&now, alive, "a pod that must not be affected");
            Ok(())
        })
    }

    /// The agent's decisions, newest first.
    pub fn decisions(&self) -> Result<Vec<Decision>, Failure> {
        decisions(self.pods.agent()?)
    }

    /// Decisions of this kind that were carried out, oldest first.
    pub fn carried_out(&self, kind: &str) -> Result<Vec<Decision>, Failure> {
        let all = self.decisions()?.into_iter().rev();
        Ok(all.filter(|decision| decision.kind == kind && !decision.would).collect())
    }

    /// Names of the pods chosen by decisions of this kind that were carried out, oldest first.
    pub fn chosen(&self, kind: &str) -> Result<Vec<String>, Failure> {
        Ok(self.carried_out(kind)?.iter().flat_map(chosen).collect())
    }

    /// Waits for the eviction that chose this pod.
    pub fn eviction_of(&self, name: &str) -> Result<Decision, Failure> {
        eventually(self.context().patiently(10), &format!("no decision that chose {name}"), || {
            Ok(self
                .carried_out("eviction")?
                .into_iter()
                .find(|decision| chosen(decision).any(|one| one == name)))
        })
    }

    /// The decision that the agent would make now with this threshold.
    pub fn simulate(&self, signal: &str, threshold: &str) -> Result<Decision, Failure> {
        let asked = format!("{signal}={threshold}");
        let text = self.output_of(&["simulate", "--signal", &asked, "--output", "json"])?;
        serde_json::from_str(&text).map_err(|e| Failure::Unexpected(format!("simulate: {e}: {text}")))
    }

    /// Standard output of a command that must succeed.
    pub fn output_of(&self, command: &[&str]) -> Result<String, Failure> {
        output_of(self.pods.agent()?, command)
    }

    /// The sum of a metric's samples with this label (any, if empty).
    pub fn metric(&self, name: &str, label: (&str, &str)) -> Result<f64, Failure> {
        metric(self.pods.agent()?, name, label)
    }

    /// Whether the agent shows this condition of the node.
    pub fn has_condition(&self, condition: &str) -> Result<bool, Failure> {
        Ok(self.metric("nodewarden_node_condition", ("condition", condition))? > 0.0)
    }

    /// Waits until the condition is, or is no longer, shown.
    pub fn wait_condition(&self, condition: &str, pressed: bool, seconds: u64) -> Result<(), Failure> {
        eventually(self.context().patiently(seconds), &format!("{condition} is not {pressed}"), || {
            Ok((self.has_condition(condition)? == pressed).then_some(()))
        })
    }
}

/// As [`PressureFixture::greedy`].
pub fn greedy(
    program: &ServerProgram,
    name: &str,
    resources: Value,
    arguments: &[&str],
    spec: Value,
) -> Value {
    let arguments: Vec<_> = ["--greedy"].iter().chain(arguments).map(|&one| one.to_owned()).collect();
    let container = shell(
        "c",
        "",
        json!({
            "command": program.command(name, &arguments),
            "volumeMounts": program.mounts(),
            "resources": resources,
        }),
    );
    pod(name, merged(json!({ "volumes": program.volumes(), "containers": [container] }), spec))
}

/// Resources of a Burstable pod: a request of memory alone.
pub fn requests(mib: u64) -> Value {
    json!({ "requests": { "memory": format!("{mib}Mi") } })
}

/// Resources of a Guaranteed pod.
pub fn guaranteed(mib: u64) -> Value {
    json!({ "limits": { "cpu": "10m", "memory": format!("{mib}Mi") } })
}

/// Fields of a spec with a priority that makes the pod critical.
pub fn critical() -> Value {
    json!({ "priorityClassName": "system-node-critical", "priority": 2_000_001_000 })
}

/// Whether a pod is shown as evicted.
pub fn is_evicted(pod: &ListedPod) -> bool {
    pod.phase() == "Failed" && pod.text("/status/reason") == "Evicted"
}

/// The decisions that `nodewarden explain node` shows, newest first.
pub fn decisions(agent: &Agent) -> Result<Vec<Decision>, Failure> {
    let text = output_of(agent, &["explain", "node", "--output", "json"])?;
    serde_json::from_str(&text).map_err(|e| Failure::Unexpected(format!("explain: {e}: {text}")))
}

/// Names of the candidates that a decision chose.
pub fn chosen(decision: &Decision) -> impl Iterator<Item = String> {
    decision
        .candidates
        .iter()
        .filter(|one| one.chosen)
        .map(|one| one.name.clone())
        .collect::<Vec<_>>()
        .into_iter()
}

/// Standard output of a command that must succeed.
pub fn output_of(agent: &Agent, command: &[&str]) -> Result<String, Failure> {
    let output = agent.command(command)?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {error}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The sum of a metric's samples with this label (any, if empty).
pub fn metric(agent: &Agent, name: &str, label: (&str, &str)) -> Result<f64, Failure> {
    let answer = agent.get("/metrics")?;
    ensure_eq!(answer.status, 200, "GET /metrics");
    let samples = parse_samples(&answer.text());
    let wanted = samples.iter().filter(|sample: &&Sample| {
        sample.name == name
            && (label.0.is_empty() || sample.labels.get(label.0).is_some_and(|value| value == label.1))
    });
    Ok(wanted.map(|sample| sample.value).sum())
}

/// The present time, in the type of decisions.
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Seconds from one moment to another.
pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// A running pod that must not be affected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningPod {
    pub name: String,
    pub uid: String,
    pub container: String,
    pub restarts: u64,
}

impl RunningPod {
    /// The pod as it is listed.
    pub fn of(pod: &ListedPod) -> Result<Self, Failure> {
        let c = pod.container("c")?;
        Ok(Self {
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            container: c.id().to_owned(),
            restarts: c.restarts(),
        })
    }
}
