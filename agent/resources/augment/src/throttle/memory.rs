//! `memory.high` of pods above their requests, while memory is short.
//!
//! What is missing to the line is taken from the pods in proportion to what each uses above its requests, so
//! that none is pressed below them. A pod that stalls wholly is given more again: above `memory.high` the
//! kernel slows a pod down as long as there is nothing to reclaim. When there was enough memory for a while,
//! each limit is relaxed in steps and then taken back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::policy::{MemoryHigh, Policy};
use crate::wanted::{Feature, Level, Place, Wanted};

/// A change of less than this part of a limit is not made.
const BAND: u64 = 32;
/// A limit grows by this part in a step of relaxing.
const RELAX: u64 = 4;
/// A pod whose tasks all wait for memory for more than this part of the time is given more, in percent.
const STALLED: f64 = 20.0;
/// The smallest limit that is set for a pod without requests.
const LEAST: u64 = 32 << 20;
/// How long there must be enough memory between two steps of relaxing.
const HOLD: Duration = Duration::from_secs(10);
/// The kernel keeps whole pages, of at most 64 KiB.
const PAGE: u64 = 64 << 10;

/// What is known of a pod's memory.
#[derive(Debug, Clone, PartialEq)]
pub struct PodMemory {
    /// The pod's uid.
    pub uid: String,
    /// Its cgroup.
    pub directory: PathBuf,
    /// `memory.current`.
    pub used: u64,
    /// Its requests; 0 for a BestEffort pod.
    pub requested: u64,
    /// `memory.max`; `None` without a limit.
    pub limit: Option<u64>,
    /// `full avg10` of `memory.pressure`, in percent; `None` where the kernel does not say.
    pub stalled: Option<f64>,
    /// Its annotations.
    pub policy: Policy,
}

/// Between which amounts of available memory pods are held back, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Below this they are.
    pub line: u64,
    /// Above this they no longer are.
    pub enough: u64,
}

impl Bounds {
    /// Those for a threshold of eviction that begin this far before it.
    pub fn new(threshold: u64, distance: u64) -> Self {
        let line = threshold.saturating_add(distance);
        Self { line, enough: line.saturating_add(distance / 2) }
    }
}

/// The limits that are set.
#[derive(Debug, Clone, Default)]
pub struct MemoryControl {
    /// By the pod's uid, in bytes.
    high: BTreeMap<String, u64>,
    /// Since when there has been enough memory, and no step was made.
    calm: Option<Duration>,
}

impl MemoryControl {
    /// Whether [`Self::update`] needs a reading of all pods; if not, of those with a fixed limit only.
    pub fn needs_all(&self, available: u64, bounds: Bounds) -> bool {
        available < bounds.line || !self.high.is_empty()
    }

    /// Takes a reading at this moment and returns what each pod should have.
    pub fn update(
        &mut self,
        now: Duration,
        available: u64,
        bounds: Bounds,
        pods: &[PodMemory],
    ) -> Vec<Wanted> {
        self.high.retain(|uid, _| pods.iter().any(|pod| pod.uid == *uid && is_held(pod)));
        if available < bounds.line {
            self.calm = None;
            self.press(bounds.line - available, pods);
        } else if available >= bounds.enough {
            self.relax(now, pods);
        } else {
            self.calm = None;
        }
        self.give_to_stalled(pods);
        pods.iter().filter_map(|pod| Some(wanted(&pod.uid, &pod.directory, self.limit_of(pod)?))).collect()
    }

    fn limit_of(&self, pod: &PodMemory) -> Option<u64> {
        let limit = match pod.policy.memory_high {
            MemoryHigh::Fixed(bytes) if !pod.policy.opted_out => bytes.max(pod.requested),
            _ => *self.high.get(&pod.uid)?,
        };
        // At or above memory.max it would do nothing.
        let limit = limit.div_ceil(PAGE) * PAGE;
        (limit > 0 && pod.limit.is_none_or(|max| limit < max)).then_some(limit)
    }

    fn press(&mut self, missing: u64, pods: &[PodMemory]) {
        let held: Vec<(&PodMemory, u64)> = pods
            .iter()
            .filter(|pod| is_held(pod))
            .map(|pod| (pod, above(pod)))
            .filter(|(_, above)| *above > 0)
            .collect();
        let total: u64 = held.iter().map(|(_, above)| above).sum();
        for (pod, above) in held {
            let part = u128::from(missing.min(total)) * u128::from(above) / u128::from(total);
            let target = pod.used.saturating_sub(part as u64).max(floor(pod));
            let before = self.high.get(&pod.uid).copied();
            if before.is_none_or(|before| target.saturating_add(before / BAND) < before) {
                self.high.insert(pod.uid.clone(), target);
            }
        }
    }

    fn relax(&mut self, now: Duration, pods: &[PodMemory]) {
        if self.high.is_empty() {
            return;
        }
        let since = *self.calm.get_or_insert(now);
        if now.saturating_sub(since) < HOLD {
            return;
        }
        self.calm = Some(now);
        for pod in pods {
            let Some(high) = self.high.get_mut(&pod.uid) else { continue };
            *high = high.saturating_add(*high / RELAX);
            if *high >= pod.used.saturating_add(pod.used / RELAX) {
                self.high.remove(&pod.uid);
            }
        }
    }

    fn give_to_stalled(&mut self, pods: &[PodMemory]) {
        for pod in pods.iter().filter(|pod| pod.stalled.is_some_and(|percent| percent > STALLED)) {
            if let Some(high) = self.high.get_mut(&pod.uid) {
                *high = (*high).max(pod.used.saturating_add(pod.used / RELAX));
            }
        }
    }
}

/// Whether the node may set a limit for the pod.
fn is_held(pod: &PodMemory) -> bool {
    let policy = &pod.policy;
    policy.memory_high == MemoryHigh::Node && !policy.opted_out && !policy.latency_sensitive
}

fn floor(pod: &PodMemory) -> u64 {
    pod.requested.max(LEAST)
}

fn above(pod: &PodMemory) -> u64 {
    pod.used.saturating_sub(floor(pod))
}

fn wanted(uid: &str, directory: &Path, bytes: u64) -> Wanted {
    Wanted {
        feature: Feature::MemoryHigh,
        level: Level::Pod,
        place: Place::new(directory, "memory.high"),
        value: bytes.to_string(),
        instead_of: &["max"],
        companion: None,
        pod: uid.to_owned(),
    }
}

#[cfg(test)]
mod tests;
