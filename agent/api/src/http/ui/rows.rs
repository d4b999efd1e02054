//! A row for each cgroup, made from the message that gRPC sends of it. Pure.

use std::time::{SystemTime, UNIX_EPOCH};

use nodewarden_proto::nodewarden::v1 as proto;
use serde::Serialize;

use super::frame::Row;

/// A cgroup. Counters run from its creation; the page makes rates of two of them, as `nodewarden top` does.
/// What is not known is left out.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Group<'a> {
    path: &'a str,
    kind: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    qos: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pod: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    container: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    image: &'a str,
    created: u64,
    /// When its files were read.
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    periods: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled: Option<u64>,
    /// CPUs that it may use: the quota over the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_limit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_limit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    threads_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_bytes: Option<u64>,
    /// Time that its own tasks waited for a CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reclaim_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rx: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx: Option<u64>,
    /// Victims of the OOM killer in it, without the cgroups below; else of the kernel's file, with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_kills: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oom_kills_below: Option<u64>,
    /// PSI of CPU, memory and I/O: percent of the last 10 seconds in which some task waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    psi_cpu: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    psi_memory: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    psi_io: Option<f64>,
}

/// The rows of the cgroups that exist, by path.
pub(super) fn groups(list: &proto::ListCgroupsResponse) -> Vec<(String, Row)> {
    let there = list.cgroups.iter().filter(|own| own.removed.is_none());
    there.map(|own| (own.path.clone(), row(&mut group(own)))).collect()
}

/// Its time of reading does not make a row new: a cgroup in which nothing happens is not sent again.
fn row(group: &mut Group<'_>) -> Row {
    let sent = text(group);
    group.read = None;
    Row { compared: text(group).into(), sent: sent.into() }
}

/// JSON. Writing it fails only for maps with keys that are no strings, which no row has.
pub(super) fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

fn group(own: &proto::Cgroup) -> Group<'_> {
    let pod = own.pod.as_ref();
    let of_pod = |field: fn(&proto::PodRef) -> &String| pod.map_or("", |pod| field(pod).as_str());
    let cores = |quota: u64, period: u64| (period > 0).then(|| quota as f64 / period as f64);
    Group {
        path: &own.path,
        kind: &own.kind,
        qos: &own.qos,
        uid: of_pod(|pod| &pod.uid),
        namespace: of_pod(|pod| &pod.namespace),
        pod: of_pod(|pod| &pod.name),
        id: of_pod(|pod| &pod.container_id),
        container: of_pod(|pod| &pod.container_name),
        image: &own.image,
        created: own.created.as_ref().and_then(proto_millis).unwrap_or_default(),
        read: own.read.as_ref().and_then(proto_millis),
        cpu_ns: own.cpu_usage_ns,
        periods: own.cpu_periods,
        throttled: own.cpu_throttled_periods,
        cpu_limit: own.cpu_quota_us.zip(own.cpu_period_us).and_then(|(quota, period)| cores(quota, period)),
        usage_bytes: own.memory_usage_bytes,
        memory_bytes: own.memory_working_set_bytes,
        memory_limit: own.memory_limit_bytes,
        threads: own.threads,
        threads_max: own.threads_max,
        read_bytes: own.io_read_bytes,
        write_bytes: own.io_write_bytes,
        wait_ns: own.cpu_wait.as_ref().map(|wait| wait.sum_ns),
        reclaim_ns: own.reclaim_stall_ns,
        rx: own.rx_bytes,
        tx: own.tx_bytes,
        oom_kills: own.oom_kills,
        oom_kills_below: own.memory_oom_kill,
        psi_cpu: own.cpu_pressure_some_avg10,
        psi_memory: own.memory_pressure_some_avg10,
        psi_io: own.io_pressure_some_avg10,
    }
}

/// Milliseconds since 1970, as scripts count time.
pub(super) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970; `None` for a time before.
pub(super) fn proto_millis(time: &prost_types::Timestamp) -> Option<u64> {
    let seconds = u64::try_from(time.seconds).ok()?;
    Some(seconds * 1000 + u64::try_from(time.nanos).ok()? / 1_000_000)
}
