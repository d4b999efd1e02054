//! What tests of pressure stand on: a stage whose pods have so much memory together and no more, pods that take of it what
//! they are told, and what the agent says of its decisions.

use std::time::SystemTime;

use jiff::Timestamp;
use nodewarden_model::Decision;
use serde_json::{Value, json};

use crate::e2e::pods::manifest::{merged, pod, shell};
use crate::e2e::pods::seen::Seen;
use crate::e2e::pods::stage::Stage;
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{Agent, Sample, ServerProgram, parse_samples, total_memory};
use crate::harness::{Context, Failure};
use crate::{ensure, ensure_eq};

/// Evicted pods come back after a second; a condition ends two seconds after its cause.
pub const QUICK: &str = "eviction: {backOffSeconds: 1, maxBackOffSeconds: 1}";
pub const TRANSITION_S: u64 = 2;
/// No other signal than those of a test.
pub const NO_DISKS: &str =
    "nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%";

/// So much memory for all pods together, in MiB: small enough for a guest.
pub const POOL_MIB: u64 = 400;
/// And so much of it is left when something goes.
pub const LEFT_MIB: u64 = 150;

/// Lines of the kubelet's configuration: all pods together have [`POOL_MIB`], and are evicted when `left` MiB of that are
/// left; `more` are more lines.
pub fn pool(left: u64, more: &str) -> Result<String, Failure> {
    let reserved = total_memory()? - POOL_MIB * MIB;
    Ok(format!(
        "systemReserved: {{memory: '{reserved}'}}\n\
         evictionHard: {{memory.available: {left}Mi, {NO_DISKS}}}\n\
         evictionPressureTransitionPeriod: {TRANSITION_S}s\n{more}"
    ))
}

/// A stage with greedy servers.
pub struct Site<'c> {
    pub stage: Stage<'c>,
    pub program: ServerProgram,
    pub begun: SystemTime,
}

impl<'c> Site<'c> {
    /// With these lines of the kubelet's configuration, and of our own section.
    pub fn new(context: &'c Context, kubelet: &str, section: &str) -> Result<Self, Failure> {
        Ok(Self {
            program: ServerProgram::new(context)?,
            begun: SystemTime::now(),
            stage: Stage::with(context, kubelet, section)?,
        })
    }

    /// The usual one: a pool, and pods that come back soon.
    pub fn with_pool(context: &'c Context, left: u64, more: &str) -> Result<Self, Failure> {
        Self::new(context, &pool(left, more)?, QUICK)
    }

    pub fn context(&self) -> &'c Context {
        self.stage.context()
    }

    /// A pod with a greedy server in its container `c`; `arguments` are more of the server's, `spec` more of the pod's.
    pub fn greedy(&self, name: &str, resources: Value, arguments: &[&str], spec: Value) -> Value {
        greedy(&self.program, name, resources, arguments, spec)
    }

    /// Lets a pod hold so many MiB from now on, and waits until it does.
    pub fn hold(&self, name: &str, mib: u64) -> Result<(), Failure> {
        self.ask(name, mib)?;
        self.holds(name, mib)
    }

    /// Lets a pod hold so many MiB, from whenever it comes to that.
    pub fn ask(&self, name: &str, mib: u64) -> Result<(), Failure> {
        self.program.hold(name, mib * MIB, 0)
    }

    /// Waits until a pod has come to hold so many MiB.
    pub fn holds(&self, name: &str, mib: u64) -> Result<(), Failure> {
        let wanted = (mib * MIB).to_string();
        eventually(self.context().patiently(20), &format!("{name} does not hold {mib} MiB"), || {
            let noted = self.program.noted(name);
            let last = noted.iter().rev().find(|one| one.listener == "hold");
            Ok(last.is_some_and(|one| one.path == wanted && one.answer == "done").then_some(()))
        })
    }

    /// Puts pods and waits until all are up.
    pub fn up<const N: usize>(&mut self, pods: [Value; N]) -> Result<Vec<Alive>, Failure> {
        let names: Vec<_> =
            pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect();
        self.stage.put(pods)?;
        names.iter().map(|name| Alive::of(&self.stage.up(name)?)).collect()
    }

    /// Waits until a pod is shown as evicted.
    pub fn evicted(&self, name: &str) -> Result<Seen, Failure> {
        self.stage.until(name, "evicted", 20, is_evicted)
    }

    /// Waits until a pod waits for this reason. Returns the message.
    pub fn waits(&self, name: &str, reason: &str) -> Result<String, Failure> {
        let waits = self.stage.until(name, reason, 20, |seen| {
            seen.phase() == "Pending" && seen.text("/status/reason") == reason
        })?;
        Ok(waits.text("/status/message").to_owned())
    }

    /// These run as they did.
    pub fn unharmed(&self, pods: &[Alive]) -> Result<(), Failure> {
        pods.iter().try_for_each(|alive| {
            let now = Alive::of(&self.stage.up(&alive.name)?)?;
            ensure_eq!(&now, alive, "a pod that was to be left alone");
            Ok(())
        })
    }

    /// What was decided, newest first.
    pub fn decisions(&self) -> Result<Vec<Decision>, Failure> {
        decisions(self.stage.agent()?)
    }

    /// Of this kind, oldest first, without those that only say what would be.
    pub fn acted(&self, kind: &str) -> Result<Vec<Decision>, Failure> {
        let all = self.decisions()?.into_iter().rev();
        Ok(all.filter(|decision| decision.kind == kind && !decision.would).collect())
    }

    /// Names of who was chosen by decisions of this kind, one after the other.
    pub fn chosen(&self, kind: &str) -> Result<Vec<String>, Failure> {
        Ok(self.acted(kind)?.iter().flat_map(chosen).collect())
    }

    /// Waits for the eviction that chose this pod.
    pub fn eviction_of(&self, name: &str) -> Result<Decision, Failure> {
        eventually(self.context().patiently(10), &format!("no decision that chose {name}"), || {
            Ok(self.acted("eviction")?.into_iter().find(|decision| chosen(decision).any(|one| one == name)))
        })
    }

    /// What would be decided now with this threshold.
    pub fn simulated(&self, signal: &str, threshold: &str) -> Result<Decision, Failure> {
        let asked = format!("{signal}={threshold}");
        let text = self.printed(&["simulate", "--signal", &asked, "--output", "json"])?;
        serde_json::from_str(&text).map_err(|e| Failure::Unexpected(format!("simulate: {e}: {text}")))
    }

    /// What a command that must succeed prints.
    pub fn printed(&self, command: &[&str]) -> Result<String, Failure> {
        printed(self.stage.agent()?, command)
    }

    /// The sum of a metric's samples with this label (any, if empty).
    pub fn metric(&self, name: &str, label: (&str, &str)) -> Result<f64, Failure> {
        metric(self.stage.agent()?, name, label)
    }

    /// Whether the node is said to be under this pressure.
    pub fn is_pressed(&self, condition: &str) -> Result<bool, Failure> {
        Ok(self.metric("nodewarden_node_condition", ("condition", condition))? > 0.0)
    }

    /// Waits until it is, or is no more.
    pub fn until_pressed(&self, condition: &str, pressed: bool, seconds: u64) -> Result<(), Failure> {
        eventually(self.context().patiently(seconds), &format!("{condition} is not {pressed}"), || {
            Ok((self.is_pressed(condition)? == pressed).then_some(()))
        })
    }
}

/// As [`Site::greedy`].
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

/// Requests of memory alone: a Burstable pod's.
pub fn requests(mib: u64) -> Value {
    json!({ "requests": { "memory": format!("{mib}Mi") } })
}

/// A Guaranteed pod's.
pub fn guaranteed(mib: u64) -> Value {
    json!({ "limits": { "cpu": "10m", "memory": format!("{mib}Mi") } })
}

/// A priority that makes a pod critical.
pub fn critical() -> Value {
    json!({ "priorityClassName": "system-node-critical", "priority": 2_000_001_000 })
}

pub fn is_evicted(pod: &Seen) -> bool {
    pod.phase() == "Failed" && pod.text("/status/reason") == "Evicted"
}

/// What `nodewarden explain` says of the node.
pub fn decisions(agent: &Agent) -> Result<Vec<Decision>, Failure> {
    let text = printed(agent, &["explain", "node", "--output", "json"])?;
    serde_json::from_str(&text).map_err(|e| Failure::Unexpected(format!("explain: {e}: {text}")))
}

/// Names of who had to go.
pub fn chosen(decision: &Decision) -> impl Iterator<Item = String> {
    decision
        .candidates
        .iter()
        .filter(|one| one.chosen)
        .map(|one| one.name.clone())
        .collect::<Vec<_>>()
        .into_iter()
}

pub fn printed(agent: &Agent, command: &[&str]) -> Result<String, Failure> {
    let output = agent.command(command)?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {error}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

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

/// Now, as decisions have it.
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Seconds from one moment to another.
pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// A pod that must go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alive {
    pub name: String,
    pub uid: String,
    pub container: String,
    pub restarts: u64,
}

impl Alive {
    pub fn of(pod: &Seen) -> Result<Self, Failure> {
        let c = pod.container("c")?;
        Ok(Self {
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            container: c.id().to_owned(),
            restarts: c.restarts(),
        })
    }
}
