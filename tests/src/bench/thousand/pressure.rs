//! One pod among many that uses up memory: how long it takes from the threshold to its kill.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use crate::bench::Run;
use crate::bench::eviction::judge;
use crate::bench::eviction::sampler::Sampler;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::pressure::fixture::{NO_DISKS, decisions};
use crate::e2e::stand_in::fixture::{CONTAINERS, Scale};
use crate::e2e::support::{MIB, eventually};
use crate::ensure;
use crate::fixture::{Group, NodeMemory, RuntimeNotes, Worker};
use crate::harness::{Context, Failure};

/// Rounds on a full and on a quick run.
const ROUNDS: [usize; 2] = [3, 1];
/// How much less than what is available the threshold is: far enough for the agent's start and another pod.
const ABOVE: u64 = 512 * MIB;
/// How much the pod would use beyond the threshold if it were not evicted.
const BEYOND: u64 = 1024 * MIB;
/// Time-out from its first byte to its death, in seconds.
const LIMIT: u64 = 120;
/// How long the node is watched after the death.
const AFTER: Duration = Duration::from_millis(500);

/// Milliseconds, one value a round.
#[derive(Debug, Clone, Default)]
pub struct Pressure {
    /// From the crossing of the threshold to the kill.
    pub kill_ms: Vec<f64>,
    /// From the reading that found the threshold crossed to the kill.
    pub decide_ms: Vec<f64>,
}

/// The threshold of an agent that is started next.
pub struct Stage {
    memory: NodeMemory,
    threshold: u64,
}

impl Stage {
    /// # Errors
    /// The available memory cannot be read.
    pub fn new(context: &Context) -> Result<Self, Failure> {
        let mut memory = NodeMemory::open(&context.layout)?;
        let available = memory.available().map_err(Failure::file("memory.stat"))?;
        Ok(Self { memory, threshold: available.saturating_sub(ABOVE) / MIB * MIB })
    }

    /// Lines of the kubelet's configuration.
    pub fn kubelet(&self) -> String {
        let threshold = self.threshold / MIB;
        format!("evictionHard: {{memory.available: {threshold}Mi, {NO_DISKS}}}\n")
    }

    /// Lets a pod use up memory and be evicted, some times, while `pods` others stay.
    ///
    /// # Errors
    /// It is not evicted, or another pod is.
    pub fn rounds(&mut self, run: &Run<'_>, scale: &Scale<'_>, pods: usize) -> Result<Pressure, Failure> {
        let mut measured = Pressure::default();
        for number in 0..ROUNDS[usize::from(run.quick)] {
            let (kill, decide) = self.round(run, scale, pods, &format!("eater-{number}"))?;
            run.progress(&format!("{pods} pods: kill {kill:.1} ms, decided and killed in {decide:.1} ms"));
            measured.kill_ms.push(kill);
            measured.decide_ms.push(decide);
        }
        Ok(measured)
    }

    fn round(
        &mut self,
        run: &Run<'_>,
        scale: &Scale<'_>,
        pods: usize,
        name: &str,
    ) -> Result<(f64, f64), Failure> {
        let context = run.context;
        let limit = context.patiently(LIMIT);
        scale.put(name, &json!({}))?;
        let wanted = ((pods + 1) * CONTAINERS) as u64;
        scale.runtime().wait_until(limit, "the pod runs", |notes| notes.running >= wanted)?;
        let group =
            eventually(limit, &format!("{name} has no container"), || container(context, scale, name))?;
        let available = self.memory.available().map_err(Failure::file("memory.stat"))?;
        ensure!(available > self.threshold, "{available} bytes are available, less than the threshold");
        let bytes = (available - self.threshold + BEYOND).to_string();

        let (sampler, begun) = (Sampler::start(context)?, Timestamp::now());
        let mut eater = Worker::start(context, Some(&group), &["eat-memory", &bytes])?;
        let ended = eater.wait(limit);
        let dead = Timestamp::now();
        std::thread::sleep(AFTER);
        let samples = sampler.stop();
        ensure!(!ended?.success(), "{name} was not killed");

        let (decision, others) = eventually(limit, &format!("no decision that chose {name}"), || {
            let (own, others) = {
                let decisions = decisions(scale.agent())?;
                let (own, others) = judge::evictions(&decisions, begun, name);
                (own.cloned(), others)
            };
            Ok(own.map(|own| (own, others)))
        })?;
        ensure!(others == 0, "{others} other pods were evicted");
        let missing = || Failure::Unexpected(format!("{name} was not killed by that: {:?}", decision.steps));
        let killed = judge::killed(&decision).ok_or_else(missing)?;
        let seen = judge::passed(&samples, self.threshold, killed, dead).ok_or_else(missing)?;
        scale.remove(name)?;
        let gone = |notes: &RuntimeNotes| notes.sandboxes == pods as u64;
        scale.runtime().wait_until(limit, "the pod is gone", gone)?;
        Ok((judge::milliseconds(seen.crossing, killed), judge::milliseconds(decision.time, killed)))
    }
}

/// The cgroup of a pod's container; `None` as long as it has none.
fn container(context: &Context, scale: &Scale<'_>, name: &str) -> Result<Option<Group>, Failure> {
    let pods = ListedPod::list(&scale.agent().get("/pods")?.text())?;
    let found = pods.iter().find(|pod| pod.name().starts_with(name) && pod.is_up());
    let Some(status) = found.and_then(|pod| Some((pod.uid(), pod.statuses().next()?.id().to_owned()))) else {
        return Ok(None);
    };
    let (uid, id) = status;
    let path = format!("{}/kubepods/burstable/pod{uid}/{id}", scale.root().group().path());
    let group = Group::new(Arc::clone(&context.layout), path);
    let is_there = group.procs_files().iter().all(|file| file.exists());
    Ok(is_there.then_some(group))
}
