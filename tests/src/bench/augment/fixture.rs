//! The real kubelet with a threshold just below the available memory, pods that are not involved, and an
//! agent in mode augment that can be started and stopped beside it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::e2e::cluster::beside::arguments;
use crate::e2e::cluster::fixture::{ClusterFixture, container_id};
use crate::e2e::cluster::node::NodeKind;
use crate::e2e::cluster::options::{NodeOptions, Prepared};
use crate::e2e::pressure::fixture::{NO_DISKS, greedy, requests};
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{Agent, AgentOptions, Api, Cluster, NodeMemory, ServerProgram, Watch};
use crate::harness::{Context, Failure};

/// Distance from the available memory down to the agent's threshold, when it is set.
const ABOVE: u64 = 256 * MIB;
/// The thresholds are set again when the distance is below or above this, because other programs of the
/// machine use and free memory.
const NEAR: u64 = 96 * MIB;
const FAR: u64 = 2048 * MIB;
/// From the agent's threshold down to the kubelet's: the default of `evictionMargin`.
const MARGIN: u64 = 64 * MIB;
/// How much a pod would use beyond the kubelet's threshold if it were not evicted.
const BEYOND: u64 = 1024 * MIB;
/// How much memory each of the other pods holds.
const HELD: u64 = 32 * MIB;
/// How long the available memory must be stable.
const REST: Duration = Duration::from_millis(500);
/// Until the agent has read the pods, and a kubelet its own.
const SETTLED: u64 = 3;
const CALM: [&str; 2] = ["calm-burstable", "calm-modest"];

pub struct Beside<'c> {
    agent: Option<Agent>,
    pub watch: Watch,
    pub cluster: ClusterFixture<'c>,
    pub program: ServerProgram,
    memory: NodeMemory,
    /// The agent's threshold in bytes.
    threshold: u64,
    with_agent: bool,
    calm: Vec<Value>,
    context: &'c Context,
}

impl<'c> Beside<'c> {
    /// Starts the kubelet and the pods.
    ///
    /// # Errors
    /// Something does not start.
    pub fn new(context: &'c Context, cluster: &Cluster) -> Result<Self, Failure> {
        let program = ServerProgram::new(context)?;
        let options = NodeOptions { kind: Some(NodeKind::Kubelet), ..NodeOptions::default() };
        let fixture = Prepared::of(context, cluster.clone(), None).start(options)?;
        let path = format!("/api/v1/namespaces/{}/pods", fixture.namespace());
        let watch = Watch::start(&Api::new(cluster)?, &path);
        let memory = NodeMemory::open(&context.layout)?;
        let mut this = Self {
            agent: None,
            watch,
            cluster: fixture,
            program,
            memory,
            threshold: 0,
            with_agent: false,
            calm: Vec::new(),
            context,
        };
        for (name, mib) in CALM.into_iter().zip([16, 64]) {
            this.start_pod(name, mib)?;
            this.program.hold(name, HELD, 0)?;
        }
        this.calm = this.calm_now()?;
        this.ready()?;
        Ok(this)
    }

    /// Starts a Burstable pod that does as [`ServerProgram`] orders, and returns it when it is ready.
    pub fn start_pod(&self, name: &str, mib: u64) -> Result<Value, Failure> {
        let spec = json!({ "nodeName": self.cluster.name() });
        self.cluster.apply(&greedy(&self.program, name, requests(mib), &[], spec))?;
        self.cluster.wait_ready(name)
    }

    /// Starts the agent, or ends it.
    pub fn set_agent(&mut self, with_agent: bool) -> Result<(), Failure> {
        self.with_agent = with_agent;
        self.restart_agent()
    }

    /// The agent, if it runs.
    pub fn agent(&self) -> Option<&Agent> {
        self.agent.as_ref()
    }

    /// The threshold in bytes of what acts: the agent's, or the kubelet's.
    pub fn threshold(&self) -> u64 {
        if self.with_agent { self.threshold } else { self.threshold - MARGIN }
    }

    /// Waits until the available memory is stable, and sets the thresholds again if the machine's usage has
    /// changed. Returns how many bytes the pod of the next round should hold.
    pub fn ready(&mut self) -> Result<u64, Failure> {
        let limit = self.context.patiently(120);
        eventually(limit, "the node's available memory does not become stable", || {
            let first = self.available()?;
            std::thread::sleep(REST);
            let second = self.available()?;
            if first.abs_diff(second) > ABOVE / 8 {
                return Ok(None);
            }
            let distance = second.saturating_sub(self.threshold);
            if (NEAR..FAR).contains(&distance) {
                return Ok(Some(distance + MARGIN + BEYOND));
            }
            self.set_thresholds(second.saturating_sub(ABOVE) / MIB)?;
            Ok(None)
        })
    }

    /// How many of the other pods have been evicted or restarted since the last call.
    pub fn changed(&mut self) -> Result<usize, Failure> {
        let now = self.calm_now()?;
        let changed = now.iter().zip(&self.calm).filter(|(now, before)| now != before).count();
        self.calm = now;
        Ok(changed)
    }

    /// Ends all.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.agent = None;
        let Self { watch, cluster, .. } = self;
        drop(watch);
        cluster.finish()
    }

    fn available(&mut self) -> Result<u64, Failure> {
        self.memory.available().map_err(Failure::file("memory.stat"))
    }

    /// Phase, container and restarts of each pod that is not involved.
    fn calm_now(&self) -> Result<Vec<Value>, Failure> {
        let of = |name: &&str| -> Result<Value, Failure> {
            let pod = self.cluster.pod(name)?.unwrap_or_default();
            let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
            Ok(json!([pod["status"]["phase"], container_id(&pod), restarts]))
        };
        CALM.iter().map(of).collect()
    }

    fn set_thresholds(&mut self, mib: u64) -> Result<(), Failure> {
        self.threshold = mib * MIB;
        let thresholds = lines(self.threshold - MARGIN);
        self.cluster.runs_by_mut().restart_kubelet_with(|settings| {
            let others = settings.lines().filter(|line| !line.starts_with("eviction"));
            others.map(|line| format!("{line}\n")).collect::<String>() + &thresholds
        })?;
        std::thread::sleep(self.context.patiently(SETTLED));
        self.restart_agent()
    }

    fn restart_agent(&mut self) -> Result<(), Failure> {
        self.agent = None;
        if self.with_agent {
            self.agent = Some(Agent::start(self.context, &self.options())?);
            std::thread::sleep(self.context.patiently(SETTLED));
        }
        Ok(())
    }

    fn options(&self) -> AgentOptions {
        AgentOptions {
            state: Some(self.context.temp.join("augment-state")),
            runtime: Some(self.cluster.runtime().to_owned()),
            kubelet: format!("cgroupRoot: /{}\n{}", self.context.prefix(), lines(self.threshold)),
            section: "augment: {events: Off, protection: Off, memoryHigh: Off, cpuIdle: Off, cpuBurst: Off, \
                      eviction: Enforce}"
                .to_owned(),
            arguments: arguments(&self.cluster),
            ..AgentOptions::default()
        }
    }
}

fn lines(threshold: u64) -> String {
    format!(
        "evictionHard: {{memory.available: {}Mi, {NO_DISKS}}}\nevictionPressureTransitionPeriod: 1s\n",
        threshold / MIB
    )
}
