//! Throttling: reads from the kernel programs' counters how long pods wait for a CPU, and has the hierarchy
//! limit the QoS levels below them.

use std::collections::HashMap;

use nodewarden_ebpf_abi::{Space, UNTRACKED};

use super::context::Context;
use super::error::DaemonError;
use nodewarden_config::{EvictionThreshold, Signal, Threshold};
use nodewarden_hierarchy::HierarchyManager;
use nodewarden_manifest::QosClass;
use nodewarden_model::{HookState, Identity, Topic};
use nodewarden_observer::Observer;
use nodewarden_throttle::{self as throttle, Deps, Machine, Throttle, Waited};

/// Starts throttling; `None` where it is not enabled.
///
/// # Errors
/// The machine cannot be read, or a thread cannot be started.
pub fn start(context: Context<'_>, hierarchy: &HierarchyManager) -> Result<Option<Throttle>, DaemonError> {
    let Context { config, observer, .. } = context;
    if !config.throttle.enabled() {
        return Ok(None);
    }
    let cpu = observer.facts.topics.iter().find(|topic| topic.topic == Topic::Cpu);
    let no_waits = cpu.filter(|topic| topic.state == HookState::Off).map(|topic| topic.reason.clone());
    let watched = observer.clone();
    let targets = hierarchy.throttle_targets().clone();
    let level = &targets.best_effort;
    let below = format!("{}/", level.rsplit_once('/').map_or("", |(kubepods, _)| kubepods));
    let (capacity, thresholds) = (hierarchy.capacity(), config.eviction.thresholds.clone());
    let deps = Deps {
        waits: Box::new(move || waits(&watched, &below)),
        no_waits,
        targets,
        sink: hierarchy.handle(),
        journal: context.journal.clone(),
        machine: Box::new(move || {
            let now = capacity.borrow();
            let threshold = threshold(&thresholds, now.memory_bytes);
            Machine { cpu_milli: now.cpu_milli, threshold }
        }),
    };
    Ok(throttle::start(&config.throttle, deps)?)
}

/// The greatest threshold of `memory.available` in bytes, hard or soft: below it pods are evicted.
pub fn threshold(thresholds: &[EvictionThreshold], capacity: u64) -> u64 {
    let bytes = |threshold: &Threshold| match threshold {
        Threshold::Quantity(quantity) => u64::try_from(quantity.value()).unwrap_or(0),
        Threshold::Fraction(fraction) => (capacity as f64 * fraction) as u64,
    };
    let memory = thresholds.iter().filter(|threshold| threshold.signal == Signal::MemoryAvailable);
    memory.map(|threshold| bytes(&threshold.value)).max().unwrap_or(0)
}

/// How long the cgroups of Guaranteed and Burstable pods have waited for a CPU so far. Only those whose path
/// starts with `below`, the agent's own kubepods: other agents' pods are not throttled for.
fn waits(observer: &Observer, below: &str) -> Vec<Waited> {
    let (Some(cells), Some(space)) = (&observer.cells, observer.facts.spaces.of(Space::Cpu)) else {
        return Vec::new();
    };
    // The registry's lock is held as briefly as possible: events wait for it.
    let mut places = Vec::new();
    {
        let registry = observer.registry.lock();
        let mut above: HashMap<&str, bool> = HashMap::new();
        for group in registry.groups().filter(|g| g.removed.is_none() && g.path.starts_with(below)) {
            let Some(uid) = group.identity.pod_uid() else { continue };
            if let Identity::Pod { qos, .. } | Identity::Container { qos, .. } = &*group.identity {
                above.insert(uid, *qos != QosClass::BestEffort);
            }
            let place = group.places[space].filter(|place| place.slot != UNTRACKED && !place.released);
            if let Some(place) = place.filter(|_| above.get(uid) == Some(&true)) {
                places.push((uid.to_owned(), group.path.clone(), group.generation, place.slot));
            }
        }
    }
    let read = |(pod, path, generation, slot)| Waited {
        pod,
        path,
        generation,
        nanoseconds: cells.cpu(slot).wait_ns,
    };
    places.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_config::{EvictionTexts, parse_thresholds};

    #[test]
    fn the_greatest_threshold_of_memory_counts() {
        let texts =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let read = |hard: &[(&str, &str)], soft: &[(&str, &str)]| {
            let grace: Vec<_> = soft.iter().map(|(signal, _)| (*signal, "1m")).collect();
            let texts = EvictionTexts {
                hard: texts(hard),
                soft: texts(soft),
                soft_grace: texts(&grace),
                ..EvictionTexts::default()
            };
            threshold(&parse_thresholds(&texts, false).unwrap(), 1000 << 20)
        };
        assert_eq!(read(&[("memory.available", "100Mi"), ("nodefs.available", "10%")], &[]), 100 << 20);
        assert_eq!(read(&[("memory.available", "100Mi")], &[("memory.available", "25%")]), 250 << 20);
        assert_eq!(read(&[("pid.available", "10%")], &[]), 0);
    }
}
