//! The agent with a threshold just below what the node has available, and pods that have nothing to do with it.

use std::time::Duration;

use serde_json::json;

use crate::e2e::pods::stage::Stage;
use crate::e2e::pressure::site::{Alive, NO_DISKS, decisions, greedy, requests};
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{NodeMemory, ServerProgram};
use crate::harness::{Context, Failure};

/// From what is available down to the threshold; on a small machine a quarter of what there is.
const ABOVE: u64 = 128 * MIB;
/// A threshold is good as long as the distance to it is between these parts of [`ABOVE`]: other programs of the machine
/// take memory and give it back.
const NEAR: f64 = 0.6;
const FAR: f64 = 2.0;
/// What an eater takes beyond the threshold if nobody stops it.
const BEYOND: u64 = 1024 * MIB;
/// What each of the other pods holds.
const HELD: u64 = 32 * MIB;
/// The node is quiet when it has been above the threshold for so long.
const REST: Duration = Duration::from_millis(300);

/// Evicted pods stay away: each run has a pod of its own.
const SECTION: &str = "eviction: {comeBack: false}";

pub struct Site<'c> {
    pub stage: Stage<'c>,
    pub program: ServerProgram,
    pub memory: NodeMemory,
    /// In bytes.
    pub threshold: u64,
    above: u64,
    beyond: u64,
    /// Who must go on as they are.
    pub calm: Vec<Alive>,
}

impl<'c> Site<'c> {
    /// # Errors
    /// The agent or the pods do not become ready.
    pub fn new(context: &'c Context) -> Result<Self, Failure> {
        let program = ServerProgram::new(context)?;
        let mut memory = NodeMemory::open(&context.layout)?;
        let available = memory.available().map_err(Failure::file("memory.stat"))?;
        let stage = Stage::with(context, &lines(MIB), SECTION)?;
        let (above, beyond) = (ABOVE.min(available / 4), BEYOND.min(available / 4));
        let mut site = Self { stage, program, memory, threshold: 0, above, beyond, calm: Vec::new() };
        let spec = || json!({});
        let pods = [
            ("calm-best-effort", json!({})),
            ("calm-burstable", requests(16)),
            // Enough CPU that its start is over soon in an emulated machine too: runc's own work counts as the pod's.
            ("calm-guaranteed", json!({ "limits": { "cpu": "500m", "memory": "128Mi" } })),
            ("calm-modest", requests(64)),
        ];
        let manifests =
            pods.clone().map(|(name, resources)| greedy(&site.program, name, resources, &[], spec()));
        site.stage.put(manifests)?;
        for (name, _) in pods {
            let alive = Alive::of(&site.stage.up(name)?)?;
            site.program.hold(name, HELD, 0)?;
            site.calm.push(alive);
        }
        std::thread::sleep(REST);
        site.ready()?;
        Ok(site)
    }

    /// Waits for quiet and moves the threshold where the machine's use has changed. Returns what an eater is to hold.
    ///
    /// # Errors
    /// The node does not come to rest, or the agent does not start.
    pub fn ready(&mut self) -> Result<u64, Failure> {
        let limit = self.stage.context().patiently(60);
        eventually(limit, "the node's memory does not come to rest", || {
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

    /// Bytes that are available on the node.
    ///
    /// # Errors
    /// The kernel's files do not say it.
    pub fn available(&mut self) -> Result<u64, Failure> {
        self.memory.available().map_err(Failure::file("memory.stat"))
    }

    /// Whole MiB, as the file has it.
    fn set_threshold(&mut self, bytes: u64) -> Result<(), Failure> {
        self.threshold = bytes / MIB * MIB;
        self.stage.stop_agent();
        self.stage.set_kubelet(&lines(self.threshold));
        self.stage.start_agent()
    }

    /// How many of the other pods are not as they were; they are counted once.
    ///
    /// # Errors
    /// The agent does not say it.
    pub fn changed(&mut self) -> Result<usize, Failure> {
        let mut changed = 0;
        for alive in &mut self.calm {
            let now = self.stage.up(&alive.name).and_then(|pod| Alive::of(&pod));
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

    /// What the agent has decided, newest first.
    ///
    /// # Errors
    /// It does not say it.
    pub fn decisions(&self) -> Result<Vec<nodewarden_model::Decision>, Failure> {
        decisions(self.stage.agent()?)
    }

    /// # Errors
    /// Something of the pods is left.
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
