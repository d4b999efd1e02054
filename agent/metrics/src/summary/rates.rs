//! CPU usage as a rate, computed from two readings of the same cgroup.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nodewarden_model::{Snapshot, Usage};

/// Minimum time between two readings: a rate over a shorter time is noise.
const MIN_WINDOW: Duration = Duration::from_secs(1);

/// CPU time of a cgroup at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    time: SystemTime,
    /// Distinguishes a cgroup from another one created later at the same path.
    created: Option<SystemTime>,
    usage_ns: u64,
}

/// CPU readings of an earlier snapshot, of the node and of each cgroup. The default has none: no rate can be
/// computed.
#[derive(Debug, Clone, Default)]
pub struct Readings {
    time: Option<SystemTime>,
    node: Option<Reading>,
    groups: HashMap<Arc<str>, Reading>,
}

impl Readings {
    /// The readings in `snapshot`; removed cgroups are left out.
    pub fn of(snapshot: &Snapshot) -> Self {
        let reading = |usage: &Usage, created| {
            Some(Reading { time: usage.time?, created, usage_ns: usage.cpu.as_ref()?.usage_ns })
        };
        Self {
            time: Some(snapshot.time),
            node: reading(&snapshot.machine.usage, None),
            groups: snapshot
                .groups
                .iter()
                .filter(|g| g.removed.is_none())
                .filter_map(|g| Some((g.path.clone(), reading(&g.usage, Some(g.created))?)))
                .collect(),
        }
    }

    /// Whether `snapshot` is at least a second later, so that it should replace these readings.
    pub fn stale(&self, snapshot: &Snapshot) -> bool {
        self.time.is_none_or(|before| match snapshot.time.duration_since(before) {
            Ok(window) => window >= MIN_WINDOW,
            Err(_) => true, // The clock was set back.
        })
    }

    /// The node's CPU usage between this reading and `now`, in nanoseconds per second.
    pub(super) fn node_rate(&self, now: &Readings) -> Option<u64> {
        rate(self.node?, now.node?)
    }

    /// The CPU usage of the cgroup at that path, in nanoseconds per second.
    pub(super) fn group_rate(&self, now: &Readings, path: &str) -> Option<u64> {
        rate(*self.groups.get(path)?, *now.groups.get(path)?)
    }
}

/// `None` if the two cannot be compared: no time between them, another cgroup, or a counter that decreased.
fn rate(before: Reading, now: Reading) -> Option<u64> {
    let window = now.time.duration_since(before.time).ok()?.as_nanos();
    let used = now.usage_ns.checked_sub(before.usage_ns)?;
    if window == 0 || before.created != now.created {
        return None;
    }
    u64::try_from(u128::from(used) * 1_000_000_000 / window).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_comparable_readings() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let at = |millis: u64, usage_ns| Reading {
            time: start + Duration::from_millis(millis),
            created: Some(start),
            usage_ns,
        };
        let other = Reading { created: None, ..at(1_000, 5) };
        let cases = [
            ("one CPU busy", at(0, 0), at(1_000, 1_000_000_000), Some(1_000_000_000)),
            ("half of ten seconds", at(0, 7), at(10_000, 5_000_000_007), Some(500_000_000)),
            ("idle", at(0, 7), at(10_000, 7), Some(0)),
            ("the same reading", at(5, 7), at(5, 7), None),
            ("clock set back", at(5, 7), at(4, 9), None),
            ("counter went back", at(0, 7), at(1_000, 6), None),
            ("another cgroup", at(0, 0), other, None),
            ("no overflow", at(0, 0), at(1_000, u64::MAX), Some(u64::MAX)),
        ];
        for (what, before, now, want) in cases {
            assert_eq!(rate(before, now), want, "{what}");
        }
    }
}
