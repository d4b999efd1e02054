//! Reads the controllers' input each period: few files, and counters that are already mapped.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use procfs::Current;

use super::ThrottleError;
use nodewarden_machine::cgroup::control::Manager;
use nodewarden_machine::cgroup::{Controller, join};

/// Total time that the tasks of one cgroup have waited in run queues, not counting its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// The pod's uid.
    pub pod: String,
    /// Path of the cgroup.
    pub path: Arc<str>,
    /// Distinguishes cgroups that had the same path one after the other.
    pub generation: u64,
    /// Time waited.
    pub nanoseconds: u64,
}

/// The pod that waited most.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Most {
    /// Its uid; empty if no pod waited.
    pub pod: String,
    /// In nanoseconds per second.
    pub waited: u64,
}

/// Computes waits since the previous reading from totals.
#[derive(Debug, Default)]
pub struct Waits {
    /// By path: generation and nanoseconds.
    before: HashMap<Arc<str>, (u64, u64)>,
    /// Nanoseconds that pods' own quotas throttled them, by path, of those that waited too long at the last
    /// reading.
    throttled: HashMap<Arc<str>, u64>,
}

impl Waits {
    /// Takes a reading, `elapsed` after the previous one, and returns the pod that waited most. The kernel
    /// counts time throttled by a pod's own CPU limit as waiting (`sched_info`: throttled tasks stay
    /// runnable), so it is subtracted: `throttled` returns the total of a path in nanoseconds, and is called
    /// only for pods above `bound` (nanoseconds per second).
    pub fn update(
        &mut self,
        now: &[Waited],
        elapsed: Duration,
        bound: u64,
        throttled: impl Fn(&str) -> Option<u64>,
    ) -> Most {
        let mut pods: BTreeMap<&str, (u64, Vec<&Arc<str>>)> = BTreeMap::new();
        for waited in now {
            let before =
                self.before.get(&waited.path).filter(|(generation, _)| *generation == waited.generation);
            let more = before.map_or(0, |(_, before)| waited.nanoseconds.saturating_sub(*before));
            let pod = pods.entry(&waited.pod).or_default();
            pod.0 += more;
            pod.1.push(&waited.path);
        }
        let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = |nanoseconds: u64| (nanoseconds as f64 / seconds) as u64;
        let mut found = HashMap::new();
        let mut most = Most::default();
        for (pod, (mut waited, paths)) in pods {
            if rate(waited) > bound {
                for path in paths {
                    let Some(so_far) = throttled(path) else { continue };
                    let own = self.throttled.get(path).map_or(0, |before| so_far.saturating_sub(*before));
                    waited = waited.saturating_sub(own);
                    found.insert(path.clone(), so_far);
                }
            }
            if rate(waited) > most.waited {
                most = Most { pod: pod.to_owned(), waited: rate(waited) };
            }
        }
        self.throttled = found;
        self.before = now.iter().map(|w| (w.path.clone(), (w.generation, w.nanoseconds))).collect();
        most
    }
}

/// Total time that a cgroup was throttled by its CPU limit, in nanoseconds; `None` without a limit.
pub fn throttled(manager: &Manager, path: &str) -> Option<u64> {
    let directory = join(&manager.layout().hierarchy(Controller::Cpu)?.mount, path);
    let text = std::fs::read_to_string(directory.join("cpu.stat")).ok()?;
    // v1 in nanoseconds, v2 in microseconds.
    number(&text, "throttled_time").or_else(|| number(&text, "throttled_usec")?.checked_mul(1000))
}

/// Total CPU time of a cgroup, in nanoseconds.
///
/// # Errors
/// It cannot be read, or the cgroup has no such figure.
pub fn cpu_ns(manager: &Manager, path: &str) -> Result<u64, ThrottleError> {
    let missing = || ThrottleError::Missing { path: PathBuf::from(path), key: "CPU time" };
    manager.usage(path)?.cpu_ns.ok_or_else(missing)
}

/// Working set of a cgroup in bytes as the kubelet counts it: use less inactive file pages. v2 only.
///
/// # Errors
/// It cannot be read.
pub fn working_set(manager: &Manager, path: &str) -> Result<u64, ThrottleError> {
    let missing = |path: PathBuf, key| ThrottleError::Missing { path, key };
    let used = manager.usage(path)?.memory_bytes.ok_or_else(|| missing(path.into(), "memory"))?;
    let hierarchy = manager.layout().hierarchy(Controller::Memory);
    let mount = hierarchy.map(|h| h.mount.clone()).unwrap_or_default();
    let file = join(&mount, path).join("memory.stat");
    let read = std::fs::read_to_string(&file);
    let text = read.map_err(|source| ThrottleError::Read { path: file.clone(), source })?;
    let inactive = number(&text, "inactive_file").ok_or_else(|| missing(file, "inactive_file"))?;
    Ok(used.saturating_sub(inactive))
}

/// `memory.available` in bytes as the kubelet computes it on v2: free memory and inactive file pages.
///
/// # Errors
/// `/proc/meminfo` cannot be read.
pub fn available() -> Result<u64, ThrottleError> {
    let memory = procfs::Meminfo::current().map_err(|source| ThrottleError::Meminfo { source })?;
    Ok(memory.mem_free.saturating_add(memory.inactive_file.unwrap_or(0)))
}

/// The number after `key` in a file of lines with a key and a number.
fn number(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
    rest.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(pod: &str, path: &str, generation: u64, milliseconds: u64) -> Waited {
        Waited { pod: pod.into(), path: path.into(), generation, nanoseconds: milliseconds * 1_000_000 }
    }

    const SECOND: Duration = Duration::from_secs(1);
    const BOUND: u64 = 50_000_000;

    fn none(_: &str) -> Option<u64> {
        None
    }

    #[test]
    fn the_containers_of_a_pod_count_together_and_the_worst_pod_counts() {
        let mut waits = Waits::default();
        let first = [waited("a", "/a/1", 1, 500), waited("a", "/a/2", 2, 0), waited("b", "/b/1", 3, 900)];
        assert_eq!(waits.update(&first, SECOND, BOUND, none), Most::default(), "nothing is known of before");
        let then = [waited("a", "/a/1", 1, 520), waited("a", "/a/2", 2, 40), waited("b", "/b/1", 3, 959)];
        let most = waits.update(&then, SECOND * 2, BOUND, none);
        assert_eq!(most, Most { pod: "a".into(), waited: 30_000_000 });
        // Another cgroup of the same path has its own total.
        let recreated = [waited("a", "/a/1", 9, 2000), waited("b", "/b/1", 3, 960)];
        assert_eq!(
            waits.update(&recreated, SECOND, BOUND, none),
            Most { pod: "b".into(), waited: 1_000_000 }
        );
    }

    #[test]
    fn throttling_by_its_own_limit_is_subtracted_from_the_second_reading_on() {
        let mut waits = Waits::default();
        let mut at = |milliseconds, throttled_ms: u64| {
            let held = move |path: &str| (path == "/a").then_some(throttled_ms * 1_000_000);
            waits.update(&[waited("p", "/a", 1, milliseconds)], SECOND, BOUND, held).waited / 1_000_000
        };
        assert_eq!(at(0, 700), 0);
        assert_eq!(at(100, 790), 100, "not known how much of it");
        assert_eq!(at(200, 880), 10);
        assert_eq!(at(300, 1200), 0, "never less than nothing");
        assert_eq!(at(310, 1200), 10);
        assert_eq!(at(400, 1290), 90, "read again");
    }

    #[test]
    fn lines_of_a_key_and_a_number() {
        let text = "nr_periods 3\nthrottled_time_x 1\nthrottled_time 12\n";
        assert_eq!((number(text, "throttled_time"), number(text, "nr")), (Some(12), None));
    }

    #[test]
    fn this_machine_has_memory() {
        let memory = procfs::Meminfo::current().unwrap();
        let available = available().unwrap();
        assert!(available > 0 && available <= memory.mem_total);
    }
}
