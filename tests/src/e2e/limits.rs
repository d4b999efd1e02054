//! Limits that the kernel enforces: what the agent reports of them, compared with the kernel's own counters.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use super::support::{MIB, eventually, kill_victims, known, oom_of, settled};
use crate::fixture::{Agent, AgentOptions, Received, TestRoot, Worker, parse_samples};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::{Refused, Scheduled};
use crate::{ensure, ensure_eq};

const MEMORY_V2: &[Capability] =
    &[Capability::Root, Capability::MemoryV2, Capability::Btf, Capability::OomVictims, Capability::Loopback];

pub const TESTS: &[Test] = &[
    Test::new("memory_max_kills", memory_max).needs(MEMORY_V2),
    Test::new("memory_oom_group_kills_all", oom_group).needs(MEMORY_V2),
    Test::new("memory_high_throttles", memory_high).needs(MEMORY_V2),
    Test::new("cpu_quota_throttles", cpu_quota).needs(&[
        Capability::Root,
        Capability::CpuQuota,
        Capability::Btf,
        Capability::Loopback,
    ]),
    Test::new("pids_max_refuses", pids_max).needs(&[
        Capability::Root,
        Capability::PidsCgroup,
        Capability::Btf,
        Capability::Loopback,
    ]),
];

const LIMIT: u64 = 24 * MIB;

/// Kills by the `memory.max` of a parent are in the agent's events and figures, of the parent too, as in
/// `memory.events`.
fn memory_max(context: &Context) -> Result<(), Failure> {
    const KILLS: u32 = 3;
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&["oom"])?;
    let tenant = root.child("tenant")?;
    tenant.limit_memory(LIMIT)?;
    let inner = tenant.child("inner")?;

    let victims = kill_victims(context, &inner, KILLS, 4 * LIMIT)?;
    let seen = events.expect(KILLS as usize, context.patiently(5), |event| {
        event.cgroup.starts_with(root.group().path())
    })?;
    ensure_eq!(pids(&seen), victims.iter().map(|victim| victim.pid).collect::<Vec<_>>(), "pids killed");
    for received in &seen {
        let oom = known(oom_of(&received.event), "the details of the kill")?;
        ensure_eq!(received.event.cgroup, inner.path(), "the victim's cgroup");
        ensure_eq!(
            (oom.limit_cgroup.as_str(), oom.limit_bytes, oom.scope.as_str()),
            (tenant.path(), Some(LIMIT), "cgroup"),
            "cgroup of the limit, limit, scope"
        );
    }
    for group in [&tenant, &inner] {
        let cgroup = settled(&client, group)?;
        ensure_eq!(group.memory_events("oom_kill")?, u64::from(KILLS), "memory.events of {}", group.path());
        ensure_eq!(cgroup.memory_oom_kill, Some(u64::from(KILLS)), "memory_oom_kill of {}", group.path());
    }
    ensure_eq!(client.cgroup(tenant.path())?.memory_limit_bytes, Some(LIMIT), "limit in the list");
    Ok(())
}

/// The killed processes, in the order of the events.
fn pids(seen: &[Received]) -> Vec<u32> {
    seen.iter().filter_map(|received| oom_of(&received.event)).map(|oom| oom.pid).collect()
}

/// With `memory.oom.group`, which the kubelet sets for containers on v2, every process of the group is killed
/// and reported.
fn oom_group(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&["oom"])?;
    let group = root.child("together")?;
    group.limit_memory(LIMIT)?;
    group.set_memory("memory.oom.group", "1")?;

    let mut workers = vec![
        Worker::spawn(context, Some(&group), &["sleep"])?,
        Worker::spawn(context, Some(&group), &["sleep"])?,
        Worker::start(context, Some(&group), &["eat-memory", &(4 * LIMIT).to_string()])?,
    ];
    let mut expected = Vec::new();
    for worker in &mut workers {
        let status = worker.wait(context.patiently(20))?;
        ensure_eq!(status.signal(), Some(libc::SIGKILL), "signal that ended a process of the group");
        expected.push(worker.pid());
    }
    let seen = events.expect(expected.len(), context.patiently(5), |event| event.cgroup == group.path())?;
    let mut killed = pids(&seen);
    killed.sort_unstable();
    expected.sort_unstable();
    ensure_eq!(killed, expected, "pids killed");
    // The kernel kills the process it chose and then the whole group, and counts the first one twice if it
    // still lives (mm/oom_kill.c, oom_kill_process); it is marked as a victim once.
    let kernel = group.memory_events("oom_kill")?;
    ensure!((3..=4).contains(&kernel), "memory.events counts {kernel} kills of 3 processes");
    ensure_eq!(settled(&client, &group)?.oom_kills, Some(3), "counted kills");
    Ok(())
}

/// A process above `memory.high` stalls in reclaim, which the agent counts, and is not killed.
fn memory_high(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&["oom"])?;
    let group = root.child("high")?;
    group.set_memory("memory.high", &LIMIT.to_string())?;

    // Only a little above it: far above, every charge would wait for seconds.
    let worker = Worker::start(context, Some(&group), &["eat-memory", &(LIMIT + LIMIT / 10).to_string()])?;
    eventually(context.patiently(10), "the group never reached memory.high", || {
        Ok((group.memory_events("high")? > 0).then_some(()))
    })?;
    let stalled = eventually(context.patiently(5), "the agent counts no reclaim stall", || {
        Ok(client.cgroup(group.path())?.reclaim_stall_ns.filter(|ns| *ns > 0))
    })?;
    println!("{stalled} ns stalled by memory.high");
    let alive = std::path::Path::new(&format!("/proc/{}", worker.pid())).exists();
    ensure!(alive, "the worker is gone");
    ensure_eq!(group.memory_events("oom_kill")?, 0, "oom_kill of memory.events");
    let cgroup = settled(&client, &group)?;
    ensure_eq!((cgroup.oom_kills, cgroup.memory_oom_kill), (Some(0), Some(0)), "kills by the agent");
    let killed = events
        .collect(Duration::from_millis(300), Duration::from_secs(1), |event| event.cgroup == group.path())?;
    ensure!(killed.is_empty(), "an OOM event without a kill: {:?}", killed[0].event);
    Ok(())
}

/// The throttling of a cgroup with a quota of a fifth of a CPU is the same in the agent's figures and metrics
/// as in `cpu.stat`.
fn cpu_quota(context: &Context) -> Result<(), Failure> {
    const QUOTA_US: u64 = 20_000;
    const PERIOD_US: u64 = 100_000;
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let group = root.child("fifth")?;
    group.limit_cpu(QUOTA_US, PERIOD_US)?;

    let mut worker = Worker::spawn(context, Some(&group), &["spin", "4000"])?;
    let before = group.throttling()?;
    let begun = Instant::now();
    worker.go()?;
    let scheduled: Scheduled = worker.report(context.patiently(30))?;
    let took = begun.elapsed().as_nanos() as f64;
    let share = scheduled.on_cpu_ns as f64 / took;
    println!("{share:.3} of a CPU");
    ensure!((0.14..=0.26).contains(&share), "a busy process with a quota of a fifth of a CPU got {share:.3}");

    // The group is idle now, so the counters do not change.
    let cgroup = settled(&client, &group)?;
    let files = group.throttling()?;
    ensure!(
        files.throttled_periods - before.throttled_periods >= 20,
        "throttled in few periods: {before:?}, then {files:?}"
    );
    ensure_eq!(cgroup.cpu_throttled_periods, Some(files.throttled_periods), "throttled periods");
    ensure_eq!(cgroup.cpu_throttled_ns, Some(files.throttled_ns), "time throttled");
    ensure_eq!(cgroup.cpu_periods, Some(files.periods), "periods");
    ensure_eq!((cgroup.cpu_quota_us, cgroup.cpu_period_us), (Some(QUOTA_US), Some(PERIOD_US)), "the quota");

    let samples = parse_samples(&agent.get("/metrics/cadvisor")?.text());
    let metric = |name: &str| {
        let own = samples
            .iter()
            .find(|s| s.name == name && s.labels.get("id").is_some_and(|id| id == group.path()));
        known(own.map(|sample| sample.value), name)
    };
    ensure_eq!(
        metric("container_cpu_cfs_throttled_periods_total")?,
        files.throttled_periods as f64,
        "metric of throttled periods"
    );
    let seconds = metric("container_cpu_cfs_throttled_seconds_total")?;
    let differ = (seconds - files.throttled_ns as f64 / 1e9).abs();
    ensure!(differ < 1e-6, "the metric says {seconds} s throttled, cpu.stat {} ns", files.throttled_ns);
    Ok(())
}

/// A fork that `pids.max` refuses is not counted as a fork, and the agent shows the threads and their limit.
fn pids_max(context: &Context) -> Result<(), Failure> {
    const THREADS: u64 = 6;
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let group = root.child("few")?;
    group.limit_threads(THREADS)?;

    let worker = Worker::start(context, Some(&group), &["fork-until-refused", "20"])?;
    let refused: Refused = worker.report(context.patiently(10))?;
    // One of them is the worker itself.
    ensure_eq!(refused, Refused { forked: THREADS - 1, errno: libc::EAGAIN }, "forked until refused");
    ensure_eq!(group.forks_refused()?, 1, "max of pids.events");
    let cgroup = settled(&client, &group)?;
    ensure_eq!(
        (cgroup.threads, cgroup.threads_max),
        (Some(THREADS), Some(THREADS)),
        "threads and their limit"
    );
    ensure_eq!(cgroup.forks, Some(THREADS - 1), "counted forks");
    Ok(())
}
