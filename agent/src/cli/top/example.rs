//! A node with pods that are always the same, for tests of drawing and for the pictures of `top`.

use jiff::Timestamp;
use nodewarden_proto::nodewarden::v1::{
    Cgroup, Container, Ended, GetStatusResponse, Histogram, ListCgroupsResponse, OomVictim, Pod, PodRef,
    Probe, ProbeRun, container::State,
};

use super::page::details::{Details, News};
use super::shown::Shown;
use nodewarden_api::grpc::time::from_timestamp;
use nodewarden_model::{Detail, Event, Exit, LimitScope, OomKill};

/// Seconds between two readings.
const INTERVAL: u64 = 2;
/// The time of the first reading.
const START: i64 = 1_767_000_000;
const MIB: u64 = 1 << 20;

/// Namespace, name, QoS class, thousandths of a core, how far they go up and down in percent, and in how many
/// readings; the limit; memory and its limit in MiB; percent of the time in which it waits for a CPU.
type Load = (&'static str, &'static str, &'static str, u64, u64, u64, u64, u64, u64, u64);

const LOADS: [Load; 12] = [
    ("shop", "cart-6d4b9c7f58-x2k8p", "Burstable", 620, 60, 23, 1000, 176, 256, 9),
    ("shop", "checkout-7c5f6d9b4-q9w7z", "Burstable", 240, 80, 7, 500, 96, 192, 4),
    ("shop", "search-0", "Burstable", 1450, 40, 17, 2000, 1480, 2048, 14),
    ("data", "postgres-0", "Guaranteed", 380, 70, 9, 1000, 884, 1024, 2),
    ("data", "redis-0", "Guaranteed", 90, 50, 16, 250, 130, 512, 1),
    ("media", "transcode-5k2vd", "BestEffort", 2100, 30, 30, 0, 620, 0, 66),
    ("monitoring", "prometheus-0", "Burstable", 310, 90, 5, 0, 1210, 2048, 3),
    ("kube-system", "coredns-7tq2m", "Burstable", 12, 40, 12, 0, 24, 170, 0),
    ("kube-system", "cilium-9kq4l", "Burstable", 105, 80, 18, 0, 180, 0, 1),
    ("ingress", "nginx-zr4vm", "Burstable", 170, 80, 11, 0, 88, 256, 2),
    ("batch", "report-28391-xk2lw", "Burstable", 499, 2, 40, 500, 301, 384, 31),
    ("dev", "notebook-anna", "Burstable", 140, 95, 6, 2000, 1003, 1024, 0),
];

fn load(pod: usize) -> (String, String, Load) {
    let load = LOADS[pod % LOADS.len()];
    match pod < LOADS.len() {
        true => (load.0.to_owned(), load.1.to_owned(), load),
        false => ("load".to_owned(), format!("worker-{pod:04}"), load),
    }
}

pub fn uid(pod: usize) -> String {
    format!("{pod:08x}-0d3b-4c4e-9a55-2f6d1b0c9e77")
}

/// How much of `base` there is in this reading: it goes up and down.
fn swing(base: u64, percent: u64, period: u64, reading: u64) -> u64 {
    let at = reading % period;
    let height = at.min(period - at) * 200 / period;
    // Not quite the same each time.
    let noise = reading.wrapping_mul(2_654_435_761) / 128 % 40;
    let height = height * (80 + noise) / 120;
    base * (100 - percent) / 100 + base * percent / 100 * height / 100
}

/// What a pod and its containers have used after so many readings.
fn cgroup(pod: usize, readings: u64) -> Cgroup {
    let (namespace, name, load) = load(pod);
    let (_, _, qos, milli, percent, period, limit, memory, memory_limit, wait) = load;
    let sum =
        |base: u64| (1..=readings).map(|n| swing(base, percent, period, n + 3 * pod as u64)).sum::<u64>();
    let time = Timestamp::from_second(START + (readings * INTERVAL) as i64).unwrap();
    let periods = readings * INTERVAL * 10;
    let waited_ns = sum(wait) * INTERVAL * 10_000_000;
    let bucket = if wait > 20 { 13 } else { 11 };
    let buckets = (0..24).map(|n| if n == bucket { waited_ns / 3_000_000 } else { 0 }).collect();
    Cgroup {
        path: format!("/kubepods/{}/pod{}", qos.to_lowercase(), uid(pod)),
        kind: "pod".into(),
        qos: qos.into(),
        pod: Some(PodRef { uid: uid(pod), namespace, name, ..PodRef::default() }),
        created: Some(from_timestamp(Timestamp::from_second(START - 11_000).unwrap())),
        read: Some(from_timestamp(time)),
        cpu_usage_ns: Some(sum(milli) * INTERVAL * 1_000_000),
        cpu_periods: (limit > 0).then_some(periods),
        cpu_throttled_periods: (limit > 0).then_some(if milli + 1 == limit { periods * 4 / 10 } else { 0 }),
        cpu_quota_us: (limit > 0).then_some(limit * 100),
        cpu_period_us: (limit > 0).then_some(100_000),
        cpu_weight: Some(79),
        memory_working_set_bytes: Some(
            (memory + swing(memory / 24, 100, period, readings + pod as u64)) * MIB,
        ),
        memory_limit_bytes: (memory_limit > 0).then_some(memory_limit * MIB),
        memory_rss_bytes: Some(memory * MIB * 7 / 8),
        memory_cache_bytes: Some(memory * MIB / 4),
        threads: Some(8 + milli / 40),
        threads_max: Some(4096),
        io_read_bytes: Some(sum(milli * 3) * 1024),
        io_write_bytes: Some(sum(milli * 2) * 1024),
        cpu_pressure_some_avg10: Some(wait as f64 * 0.7),
        memory_pressure_some_avg10: Some(0.0),
        io_pressure_some_avg10: Some(wait as f64 * 0.05),
        cpu_wait: Some(Histogram { buckets, sum_ns: waited_ns }),
        reclaim_stall_ns: Some((memory * 100).checked_div(memory_limit).map_or(0, |full| sum(full) * 20_000)),
        oom_kills: Some(u64::from(pod == 0)),
        rx_bytes: Some(sum(milli * 5) * 1024),
        tx_bytes: Some(sum(milli * 9) * 1024),
        ..Cgroup::default()
    }
}

/// The container of a pod. The kernel programs count it alone, so its pod has nothing of their figures
/// itself.
fn container(pod: &mut Cgroup, name: &str, id: &str, percent: u64) -> Cgroup {
    let part = |all: Option<u64>| all.map(|all| all * percent / 100);
    let of_pod = pod.pod.clone().unwrap_or_default();
    Cgroup {
        path: format!("{}/{id}", pod.path),
        kind: "container".into(),
        pod: Some(PodRef { container_id: id.into(), container_name: name.into(), ..of_pod }),
        image: format!("registry.example/{name}:1.8"),
        cpu_usage_ns: part(pod.cpu_usage_ns),
        memory_working_set_bytes: part(pod.memory_working_set_bytes),
        threads: part(pod.threads),
        io_read_bytes: part(pod.io_read_bytes),
        io_write_bytes: part(pod.io_write_bytes),
        rx_bytes: part(pod.rx_bytes),
        tx_bytes: part(pod.tx_bytes),
        cpu_wait: pod.cpu_wait.clone().map(|own| Histogram {
            buckets: own.buckets.iter().map(|n| n * percent / 100).collect(),
            sum_ns: own.sum_ns * percent / 100,
        }),
        ..pod.clone()
    }
}

/// The whole node.
fn reading(pods: usize, readings: u64) -> ListCgroupsResponse {
    let time = from_timestamp(now(readings));
    let mut cgroups = Vec::new();
    for number in 0..pods {
        let mut pod = cgroup(number, readings);
        let mut containers = match number {
            0 => vec![
                container(&mut pod, "web", &"a1".repeat(32), 88),
                container(&mut pod, "log-shipper", &"b2".repeat(32), 10),
            ],
            _ => vec![container(&mut pod, "main", &format!("{number:064x}"), 97)],
        };
        (pod.cpu_wait, pod.rx_bytes, pod.tx_bytes) = (None, None, None);
        (pod.oom_kills, pod.reclaim_stall_ns) = (Some(0), None);
        if let Some(second) = containers.get_mut(1) {
            (second.oom_kills, second.memory_limit_bytes, second.cpu_quota_us) = (Some(0), None, None);
        }
        cgroups.push(pod);
        cgroups.append(&mut containers);
    }
    let all = |field: fn(&Cgroup) -> Option<u64>| {
        cgroups.iter().filter(|c| c.kind == "pod").filter_map(field).sum()
    };
    let root = Cgroup {
        path: "/".into(),
        kind: "root".into(),
        read: Some(time),
        cpu_usage_ns: Some(all(|pod| pod.cpu_usage_ns)),
        memory_working_set_bytes: Some(all(|pod| pod.memory_working_set_bytes) + 900 * MIB),
        ..Cgroup::default()
    };
    cgroups.insert(0, root);
    ListCgroupsResponse {
        time: Some(time),
        cpus: 8,
        memory_bytes: 16 << 30,
        cgroups,
        node_name: "node-1".into(),
    }
}

/// The time of the last of so many readings.
pub fn now(readings: u64) -> Timestamp {
    Timestamp::from_second(START + (readings * INTERVAL) as i64).unwrap()
}

/// What `top` has after so many readings of a node with so many pods.
pub fn shown(pods: usize, readings: u64) -> Shown {
    let mut shown = Shown::new(reading(pods, 0));
    for number in 1..=readings {
        let status = GetStatusResponse {
            version: "1.0.0".into(),
            mode: "manage".into(),
            resident_bytes: 31 * MIB,
            ..GetStatusResponse::default()
        };
        shown.take(Ok((reading(pods, number), status)));
    }
    shown
}

/// What the agent says of the first pod, at this time.
pub fn details(now: Timestamp) -> Details {
    let ago = |seconds: i64| Timestamp::from_second(now.as_second() - seconds).unwrap();
    let at = |seconds| Some(from_timestamp(ago(seconds)));
    let map = |pairs: [(&str, &str); 2]| pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let victim = OomVictim { time: at(1200), pid: 48_211, command: "java".into() };
    let probe = |kind: &str, spec: &str, result: &str, in_a_row, output: &str| Probe {
        r#type: kind.into(),
        spec: spec.into(),
        result: result.into(),
        in_a_row,
        last: Some(ProbeRun { outcome: result.into(), output: output.into(), ..ProbeRun::default() }),
        ..Probe::default()
    };
    let timing = "delay=0s timeout=1s period=10s #success=1 #failure=3";
    let web = Container {
        name: "web".into(),
        kind: "container".into(),
        image: "registry.example/web:1.8".into(),
        id: "a1".repeat(32),
        state: Some(State::RunningSince(from_timestamp(ago(1190)))),
        last: Some(Ended {
            exit_code: 137,
            reason: "OOMKilled".into(),
            finished: at(1200),
            oom: Some(victim),
            ..Ended::default()
        }),
        restarts: 2,
        ready: true,
        requests: map([("cpu", "250m"), ("memory", "128Mi")]),
        limits: map([("cpu", "1"), ("memory", "256Mi")]),
        probes: vec![
            probe("Readiness", &format!("http-get http://:8080/ready {timing}"), "success", 118, ""),
            probe("Liveness", &format!("tcp-socket :8080 {timing}"), "success", 119, ""),
        ],
        ..Container::default()
    };
    let shipper = Container {
        name: "log-shipper".into(),
        image: "registry.example/log-shipper:1.8".into(),
        id: "b2".repeat(32),
        state: Some(State::RunningSince(from_timestamp(ago(11_000)))),
        ready: false,
        restarts: 0,
        last: None,
        requests: map([("cpu", "10m"), ("memory", "16Mi")]),
        limits: [].into(),
        probes: vec![probe(
            "Readiness",
            &format!("exec [ready] {timing}"),
            "failure",
            4,
            "the queue is full\nno\n",
        )],
        ..web.clone()
    };
    let pod = Pod {
        uid: uid(0),
        qos: "Burstable".into(),
        phase: "Running".into(),
        ips: vec!["10.0.3.17".into()],
        containers: vec![web, shipper],
        ..Pod::default()
    };
    let group = format!("/kubepods/burstable/pod{}/{}", uid(0), "a1".repeat(32));
    let of_pod = nodewarden_model::PodRef {
        uid: uid(0),
        namespace: "shop".into(),
        name: "cart-6d4b9c7f58-x2k8p".into(),
        container_id: "a1".repeat(32),
        container_name: "web".into(),
    };
    let oom = Detail::Oom(OomKill {
        pid: 48_211,
        command: "java".into(),
        total_vm_bytes: 4_831_838_208,
        anon_rss_bytes: 248 * MIB,
        file_rss_bytes: MIB,
        shmem_rss_bytes: 0,
        oom_score_adj: 968,
        scope: LimitScope::Cgroup,
        limit_cgroup: group.clone(),
        limit_bytes: Some(256 * MIB),
        trigger_pid: 48_211,
        trigger_command: "java".into(),
        trigger_cgroup: group.clone(),
    });
    let exit = Exit { pid: 48_211, namespace_pid: 1, command: "java".into(), code: 0, signal: 9, main: true };
    let note = |reason: &str, message: &str| Detail::Pod { reason: reason.into(), message: message.into() };
    let mut details = Details::default();
    details.take(News::Pod(Some(Box::new(pod))));
    for (seq, seconds, detail) in [
        (1, 11_000, note("Started", "Started container web")),
        (2, 1200, oom),
        (3, 1200, Detail::Exit(exit)),
        (4, 1190, note("Started", "Started container web")),
        (5, 24, note("Unhealthy", "Readiness probe failed: the queue is full")),
    ] {
        let (time, cgroup, pod) = (ago(seconds), group.as_str().into(), Some(of_pod.clone()));
        details.take(News::Event(Box::new(Event { seq, time, cgroup, pod, detail })));
    }
    details
}
