//! An agent with a threshold just below the available memory, and pods that are not involved.

use std::time::Duration;

use serde_json::json;

use crate::e2e::pods::fixture::PodFixture;
use crate::e2e::pressure::fixture::{NO_DISKS, RunningPod, decisions, greedy, requests};
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{NodeMemory, ServerProgram};
use crate::harness::{Context, Failure};

/// Distance from the available memory down to the threshold; on a small machine a quarter of the available
/// memory.
const ABOVE: u64 = 128 * MIB;
/// A threshold is kept as long as the distance to it is between these multiples of [`ABOVE`], because other
/// programs of the machine use and free memory.
const NEAR: f64 = 0.6;
const FAR: f64 = 2.0;
/// How much a pod would use beyond the threshold if it were not evicted.
const BEYOND: u64 = 1024 * MIB;
/// How much memory each of the other pods holds.
const HELD: u64 = 32 * MIB;
/// How long the available memory must be stable.
const REST: Duration = Duration::from_millis(300);

/// Evicted pods are not restarted, because each round has a pod of its own.
const SECTION: &str = "eviction: {restartEvicted: false}";

pub struct EvictionFixture<'c> {
    pub stage: PodFixture<'c>,
    pub program: ServerProgram,
    pub memory: NodeMemory,
    /// In bytes.
    pub threshold: u64,
    above: u64,
    beyond: u64,
    /// The pods that must not be affected.
    pub calm: Vec<RunningPod>,
}

impl<'c> EvictionFixture<'c> {
    /// # Errors
    /// The agent or the pods do not become ready.
    pub fn new(context: &'c Context) -> Result<Self, Failure> {
        let program = ServerProgram::new(context)?;
        let mut memory = NodeMemory::open(&context.layout)?;
        let available = memory.available().map_err(Failure::file("memory.stat"))?;
        let stage = PodFixture::with_config(context, &lines(MIB), SECTION)?;
        let (above, beyond) = (ABOVE.min(available / 4), BEYOND.min(available / 4));
        let mut fixture = Self { stage, program, memory, threshold: 0, above, beyond, calm: Vec::new() };
        let spec = || json!({});
        let pods = [
            ("calm-best-effort", json!({})),
            ("calm-burstable", requests(16)),
            // Enough CPU that its start is quick in an emulated machine too: runc's work counts as the pod's.
            ("calm-guaranteed", json!({ "limits": { "cpu": "500m", "memory": "128Mi" } })),
            ("calm-modest", requests(64)),
        ];
        let manifests =
            pods.clone().map(|(name, resources)| greedy(&fixture.program, name, resources, &[], spec()));
        fixture.stage.put(manifests)?;
        for (name, _) in pods {
            let alive = RunningPod::of(&fixture.stage.wait_up(name)?)?;
            fixture.program.hold(name, HELD, 0)?;
            fixture.calm.push(alive);
        }
        std::thread::sleep(REST);
        fixture.ready()?;
        Ok(fixture)
    }

    /// Waits until the available memory is stable and sets the threshold again if the machine's usage has
    /// changed. Returns how many bytes the pod of the next round should hold.
    ///
    /// # Errors
    /// The available memory does not become stable, or the agent does not start.
    pub fn ready(&mut self) -> Result<u64, Failure> {
        let limit = self.stage.context().patiently(60);
        eventually(limit, "the node's available memory does not become stable", || {
            let [first, second] = [self.available()?, {
                std::thread::sleep(REST);
                self.available()?
            }];
            if first.abs_diff(second) > self.above / 8 {
                return Ok(None);
            }
            let distance = second.saturating_sub(self.threshold) as f64 / self.above as f64;
            if (NEAR..FAR).contains(&distance) {
                return Ok(Some(second - self.threshold + self.beyond));
            }
            self.set_threshold(second.saturating_sub(self.above))?;
            Ok(None)
        })
    }

    /// The available memory of the node in bytes.
    ///
    /// # Errors
    /// The kernel's files cannot be read.
    pub fn available(&mut self) -> Result<u64, Failure> {
        self.memory.available().map_err(Failure::file("memory.stat"))
    }

    /// Sets the threshold, in whole MiB, and restarts the agent.
    fn set_threshold(&mut self, bytes: u64) -> Result<(), Failure> {
        self.threshold = bytes / MIB * MIB;
        self.stage.stop_agent();
        self.stage.set_kubelet(&lines(self.threshold));
        self.stage.start_agent()
    }

    /// How many of the other pods have been evicted or restarted since the last call.
    ///
    /// # Errors
    /// The agent does not answer.
    pub fn changed(&mut self) -> Result<usize, Failure> {
        let mut changed = 0;
        for alive in &mut self.calm {
            let now = self.stage.wait_up(&alive.name).and_then(|pod| RunningPod::of(&pod));
            match now {
                Ok(now) if now == *alive => {}
                Ok(now) => {
                    *alive = now;
                    changed += 1;
                }
                Err(failure) => {
                    eprintln!("{failure}");
                    changed += 1;
                }
            }
        }
        Ok(changed)
    }

    /// The agent's eviction decisions, newest first.
    ///
    /// # Errors
    /// The agent does not answer.
    pub fn decisions(&self) -> Result<Vec<nodewarden_model::Decision>, Failure> {
        decisions(self.stage.agent()?)
    }

    /// # Errors
    /// Something of the pods is left behind.
    pub fn finish(self) -> Result<(), Failure> {
        self.stage.finish()
    }
}

fn lines(threshold: u64) -> String {
    format!(
        "evictionHard: {{memory.available: {}Mi, {NO_DISKS}}}\nevictionPressureTransitionPeriod: 1s\n",
        threshold / MIB
    )
}
