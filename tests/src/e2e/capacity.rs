//! More cgroups than the agent has slots for: it reports and counts them, and tracks new ones once slots are
//! free.

use std::time::Duration;

use super::support::{eventually, known};
use crate::fixture::{Agent, AgentOptions, TestRoot, Worker, parse_samples};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("cgroups_beyond_capacity_are_reported", beyond_capacity).needs(&[
    Capability::Root,
    Capability::Btf,
    Capability::Loopback,
])];

const CAPACITY: u32 = 64;
const CGROUPS: usize = 200;

/// Cgroups beyond the capacity, and events in them, are counted as untracked; freed slots are used again.
fn beyond_capacity(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let options = AgentOptions { max_cgroups: Some(CAPACITY), ..Default::default() };
    let agent = Agent::start(context, &options)?;
    let client = agent.client()?;
    let groups = (0..CGROUPS).map(|i| root.child(&format!("g{i}"))).collect::<Result<Vec<_>, _>>()?;

    let minimum = (CGROUPS - CAPACITY as usize) as u64;
    let status = eventually(context.patiently(5), "the cgroups without a slot are not counted", || {
        let status = client.status()?;
        Ok((status.cgroups_untracked >= minimum).then_some(status))
    })?;
    ensure_eq!(status.cgroup_capacity, u64::from(CAPACITY), "capacity");
    ensure!(status.cgroups <= status.cgroup_capacity, "{} cgroups tracked", status.cgroups);
    let samples = parse_samples(&agent.get("/metrics")?.text());
    let metric = |name: &str| samples.iter().find(|sample| sample.name == name).map(|sample| sample.value);
    let untracked =
        known(metric("nodewarden_cgroups_untracked_total"), "the metric nodewarden_cgroups_untracked_total")?;
    ensure!(untracked >= minimum as f64, "the metric says {untracked} untracked");
    ensure!(
        metric("nodewarden_cgroup_capacity") == Some(f64::from(CAPACITY)),
        "wrong value of the metric nodewarden_cgroup_capacity"
    );

    // Events in a cgroup without a slot are counted as untracked.
    let last = &groups[CGROUPS - 1];
    let worker = Worker::start(context, Some(last), &["spin", "200"])?;
    worker.finish(context.patiently(10))?;
    eventually(context.patiently(5), "events in a cgroup without a slot are not counted", || {
        Ok((client.status()?.untracked_counts > 0).then_some(()))
    })?;

    for group in &groups {
        group.remove_when_empty(context.patiently(5))?;
    }
    tracks_again(context, &root, &client)
}

/// Checks that a new cgroup is tracked once the others are removed.
fn tracks_again(context: &Context, root: &TestRoot, client: &crate::fixture::Client) -> Result<(), Failure> {
    let mut i = 0;
    eventually(context.patiently(10), "a new cgroup is still not tracked", || {
        i += 1;
        let group = root.child(&format!("again{i}"))?;
        let worker = Worker::start(context, Some(&group), &["spin", "50"])?;
        worker.finish(context.patiently(10))?;
        std::thread::sleep(Duration::from_millis(300));
        let tracked = client.cgroup(group.path())?.on_cpu_ns.is_some_and(|ns| ns > 10_000_000);
        group.remove_when_empty(context.patiently(5))?;
        Ok(tracked.then_some(()))
    })
}
