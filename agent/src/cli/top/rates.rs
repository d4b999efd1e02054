//! Rates between two readings, one row per cgroup. Pure.

use std::collections::HashMap;
use std::time::Duration;

use nodewarden_proto::nodewarden::v1::{Cgroup, Histogram, ListCgroupsResponse};

use nodewarden_api::grpc::time;
use nodewarden_model::{Log2Histogram, WAIT_BUCKETS};

/// One cgroup. A figure is `None` if it is unknown or needs an earlier reading.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Row {
    pub path: String,
    /// `namespace/pod`, `namespace/pod:container`, or the path.
    pub name: String,
    /// The kind, as in `Cgroup.kind`.
    pub kind: String,
    /// The uid of its pod; empty if it belongs to none.
    pub pod: String,
    /// CPU cores used, and how many it may use.
    pub cpu: Option<f64>,
    pub cpu_limit: Option<f64>,
    /// Time that tasks were ready but had no CPU, in seconds per second; above 1 if several waited.
    pub wait: Option<f64>,
    /// 99th percentile of a single wait, in nanoseconds.
    pub wait_p99_ns: Option<u64>,
    /// Share of CFS periods that were throttled.
    pub throttled: Option<f64>,
    /// Time that tasks stalled because memory had to be reclaimed first, in seconds per second.
    pub reclaim: Option<f64>,
    /// Working set in bytes, and its limit.
    pub memory: Option<u64>,
    pub memory_limit: Option<u64>,
    /// Bytes read per second.
    pub read: Option<f64>,
    pub write: Option<f64>,
    pub rx: Option<f64>,
    pub tx: Option<f64>,
    pub threads: Option<u64>,
    /// Processes killed by the OOM killer so far, in the cgroup and its descendants.
    pub oom_kills: Option<u64>,
}

/// What the kernel programs counted between the readings. They count each cgroup without its descendants, so
/// the figures are summed up over them.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    wait: Option<Log2Histogram>,
    rx: Option<u64>,
    tx: Option<u64>,
    reclaim_ns: Option<u64>,
    oom_kills: Option<u64>,
}

impl Own {
    fn add(&mut self, other: &Self) {
        if let Some(theirs) = &other.wait {
            let ours = self.wait.get_or_insert_default();
            ours.sum_ns += theirs.sum_ns;
            ours.buckets.iter_mut().zip(theirs.buckets).for_each(|(a, b)| *a += b);
        }
        for (ours, theirs) in [
            (&mut self.rx, other.rx),
            (&mut self.tx, other.tx),
            (&mut self.reclaim_ns, other.reclaim_ns),
            (&mut self.oom_kills, other.oom_kills),
        ] {
            if let Some(theirs) = theirs {
                *ours.get_or_insert(0) += theirs;
            }
        }
    }
}

/// One row for every cgroup that still exists, in the order of the reading. Without `before` all rates are
/// `None`.
pub fn rows(before: Option<&ListCgroupsResponse>, now: &ListCgroupsResponse) -> Vec<Row> {
    let old: HashMap<&str, &Cgroup> =
        before.iter().flat_map(|b| &b.cgroups).map(|c| (c.path.as_str(), c)).collect();
    let elapsed = before.and_then(|b| time::between(b.time.as_ref()?, now.time.as_ref()?));
    let summed = sum_up(now, &old);
    let alive = now.cgroups.iter().filter(|c| c.removed.is_none());
    alive
        .map(|c| {
            let own = summed.get(c.path.as_str()).copied().unwrap_or_default();
            row(c, old.get(c.path.as_str()).copied().filter(|o| same(o, c)), &own, elapsed)
        })
        .collect()
}

/// Whether both are the same cgroup, and not one removed and created again at the same path.
fn same(a: &Cgroup, b: &Cgroup) -> bool {
    a.created == b.created
}

/// Sums the counts of each cgroup and its descendants.
fn sum_up<'a>(now: &'a ListCgroupsResponse, old: &HashMap<&str, &Cgroup>) -> HashMap<&'a str, Own> {
    let mut sums: HashMap<&str, Own> = HashMap::new();
    for c in &now.cgroups {
        let before = old.get(c.path.as_str()).copied().filter(|o| same(o, c));
        let own = own(before, c);
        for ancestor in ancestors(&c.path) {
            sums.entry(ancestor).or_default().add(&own);
        }
    }
    sums
}

/// The path itself and all its ancestors.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let mut next = Some(path);
    std::iter::from_fn(move || {
        let this = next?;
        next = match this.rfind('/') {
            _ if this == "/" => None,
            Some(0) => Some("/"),
            Some(at) => Some(&this[..at]),
            None => None,
        };
        Some(this)
    })
}

fn own(before: Option<&Cgroup>, now: &Cgroup) -> Own {
    let rate = |field: fn(&Cgroup) -> Option<u64>| grown(field(before?), field(now));
    Own {
        wait: before.and_then(|b| waited(b.cpu_wait.as_ref()?, now.cpu_wait.as_ref()?)),
        rx: rate(|c| c.rx_bytes),
        tx: rate(|c| c.tx_bytes),
        reclaim_ns: rate(|c| c.reclaim_stall_ns),
        oom_kills: now.oom_kills,
    }
}

/// How much a counter grew; `None` if it is unknown or was reset.
fn grown(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

fn waited(before: &Histogram, now: &Histogram) -> Option<Log2Histogram> {
    let mut out =
        Log2Histogram { sum_ns: now.sum_ns.checked_sub(before.sum_ns)?, buckets: [0; WAIT_BUCKETS] };
    for (i, bucket) in out.buckets.iter_mut().enumerate() {
        let at = |h: &Histogram| h.buckets.get(i).copied().unwrap_or(0);
        *bucket = at(now).checked_sub(at(before))?;
    }
    Some(out)
}

fn row(c: &Cgroup, before: Option<&Cgroup>, own: &Own, elapsed: Option<Duration>) -> Row {
    let per_second = |n: Option<u64>, time: Option<Duration>| {
        let seconds = time.filter(|t| !t.is_zero())?.as_secs_f64();
        Some(n? as f64 / seconds)
    };
    // Cgroup files have a time of reading of their own; the programs' counters are read with the whole list.
    let between_reads = before.and_then(|b| time::between(b.read.as_ref()?, c.read.as_ref()?)).or(elapsed);
    let file = |field: fn(&Cgroup) -> Option<u64>| per_second(grown(field(before?), field(c)), between_reads);
    let periods = before.and_then(|b| grown(b.cpu_periods, c.cpu_periods));
    let throttled = before.and_then(|b| grown(b.cpu_throttled_periods, c.cpu_throttled_periods));
    Row {
        path: c.path.clone(),
        name: name(c),
        kind: c.kind.clone(),
        pod: c.pod.as_ref().map(|pod| pod.uid.clone()).unwrap_or_default(),
        cpu_limit: match (c.cpu_quota_us, c.cpu_period_us) {
            (Some(quota), Some(period)) if period > 0 => Some(quota as f64 / period as f64),
            _ => None,
        },
        cpu: file(|c| c.cpu_usage_ns).map(|ns| ns / 1e9),
        wait: per_second(own.wait.map(|w| w.sum_ns), elapsed).map(|ns| ns / 1e9),
        wait_p99_ns: own.wait.filter(|w| w.count() > 0).map(|w| w.quantile_ns(0.99)),
        throttled: match (throttled, periods) {
            (Some(t), Some(p)) if p > 0 => Some(t as f64 / p as f64),
            _ => None,
        },
        reclaim: per_second(own.reclaim_ns, elapsed).map(|ns| ns / 1e9),
        memory: c.memory_working_set_bytes,
        memory_limit: c.memory_limit_bytes,
        read: file(|c| c.io_read_bytes),
        write: file(|c| c.io_write_bytes),
        rx: per_second(own.rx, elapsed),
        tx: per_second(own.tx, elapsed),
        threads: c.threads,
        // The file includes descendants; the programs count each victim in its own cgroup.
        oom_kills: own.oom_kills.or(c.memory_oom_kill),
    }
}

/// The name to display: the pod and container, or the path.
fn name(c: &Cgroup) -> String {
    let Some(pod) = &c.pod else { return c.path.clone() };
    if pod.name.is_empty() && c.kind == "nested" {
        return c.path.clone();
    }
    let pod_name = match (pod.namespace.is_empty(), pod.name.is_empty()) {
        (false, false) => format!("{}/{}", pod.namespace, pod.name),
        (true, false) => pod.name.clone(),
        (_, true) => pod.uid.clone(),
    };
    let short = pod.container_id.get(..12).unwrap_or(&pod.container_id);
    match c.kind.as_str() {
        "container" if pod.container_name.is_empty() => format!("{pod_name}:{short}"),
        "container" => format!("{pod_name}:{}", pod.container_name),
        "sandbox" => format!("{pod_name}:(sandbox)"),
        "nested" => c.path.clone(),
        _ => pod_name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_api::grpc::cgroup::list;
    use nodewarden_model::AgentState;
    use nodewarden_model::fixture::Node;

    fn readings() -> (ListCgroupsResponse, ListCgroupsResponse) {
        let node = Node::default();
        (list(&node.snapshot(), "", false), list(&node.snapshot(), "", false))
    }

    fn of<'a>(rows: &'a [Row], path: &str) -> &'a Row {
        rows.iter().find(|r| r.path == path).unwrap()
    }

    #[test]
    fn rates_are_computed_from_two_readings() {
        let (before, now) = readings();
        let rows = rows(Some(&before), &now);
        assert_eq!(rows.len(), 7, "the removed one is left out");
        let pod = of(&rows, "/kubepods/burstable/pod8c5e");
        assert_eq!((pod.name.as_str(), pod.memory), ("shop/cart-5d9c", Some(64 << 20)));
        assert!((pod.cpu.unwrap() - 0.64).abs() < 1e-9);
        // The programs count for each cgroup alone: the pod has its own 64 and its container's 63.
        assert!((pod.rx.unwrap() - 127.0 * 1024.0).abs() < 1e-6);
        assert!((pod.wait.unwrap() - 0.127).abs() < 1e-9);
        assert_eq!(pod.wait_p99_ns, Some(1 << 13));
        assert_eq!((pod.tx, pod.read, pod.throttled), (Some(0.0), None, None));
        // A removed child counts above it too.
        assert!((of(&rows, "/system.slice").rx.unwrap() - 26.0 * 1024.0).abs() < 1e-6);
    }

    #[test]
    fn there_is_no_rate_without_an_earlier_reading() {
        let (_, now) = readings();
        let rows = rows(None, &now);
        assert_eq!(rows.len(), 7);
        assert!(rows.iter().all(|r| r.cpu.is_none() && r.wait.is_none() && r.rx.is_none()));
        assert!(rows.iter().all(|r| r.memory.is_some()));
    }

    #[test]
    fn there_is_no_rate_of_a_counter_that_was_reset() {
        let (before, mut now) = readings();
        for c in &mut now.cgroups {
            c.cpu_usage_ns = Some(0);
            c.created = c.created.map(|t| prost_types::Timestamp { seconds: t.seconds + 5, ..t });
        }
        assert!(rows(Some(&before), &now).iter().all(|r| r.cpu.is_none() && r.rx.is_none()));
        let (mut before, now) = readings();
        before.cgroups.iter_mut().for_each(|c| c.cpu_usage_ns = Some(u64::MAX));
        assert!(rows(Some(&before), &now).iter().all(|r| r.cpu.is_none() && r.rx.is_some()));
        // No time between: no division.
        assert!(rows(Some(&now), &now).iter().all(|r| r.cpu.is_none()));
    }

    #[test]
    fn ancestors_up_to_the_root() {
        assert_eq!(ancestors("/a/b/c").collect::<Vec<_>>(), ["/a/b/c", "/a/b", "/a", "/"]);
        assert_eq!(ancestors("/").collect::<Vec<_>>(), ["/"]);
    }
}
