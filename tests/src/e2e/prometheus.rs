//! A real Prometheus and promtool read the agent's metrics.

use super::support::eventually;
use crate::fixture::{Agent, AgentOptions, Prometheus, TestRoot, Worker, check_metrics};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("prometheus_scrapes", scrapes).in_parallel().needs(&[
        Capability::Root,
        Capability::Loopback,
        Capability::Prometheus,
    ]),
    Test::new("promtool_check", check).needs(&[Capability::Root, Capability::Loopback, Capability::Promtool]),
];

const PATHS: [&str; 3] = ["/metrics", "/metrics/cadvisor", "/metrics/resource"];

/// Prometheus scrapes every metrics path of the agent successfully.
fn scrapes(context: &Context) -> Result<(), Failure> {
    let agent = Agent::start(context, &AgentOptions::default())?;
    let prometheus = Prometheus::start(context, agent.http(), &PATHS)?;
    let targets = eventually(context.patiently(20), "not every target was scraped", || {
        let targets = prometheus.targets()?;
        let scraped = targets.len() == PATHS.len() && targets.iter().all(|t| t.health != "unknown");
        Ok(scraped.then_some(targets))
    })?;
    for target in &targets {
        ensure_eq!(target.health, "up", "health of {} ({})", target.scrape_url, target.last_error);
    }
    let up = eventually(context.patiently(5), "`up` has no values yet", || {
        let up = prometheus.query("up")?;
        Ok((up.len() == PATHS.len()).then_some(up))
    })?;
    ensure!(up.iter().all(|value| *value == 1.0), "up is {up:?}");
    let root = prometheus.query("nodewarden_cgroup_capacity")?;
    ensure_eq!(root, [8192.0], "nodewarden_cgroup_capacity as queried from Prometheus");
    Ok(())
}

/// promtool finds no fault in `/metrics` with series of a removed cgroup and of a pod's container.
fn check(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let group = root.child("short")?;
    let worker = Worker::start(context, Some(&group), &["spin", "100"])?;
    worker.finish(context.patiently(10))?;
    group.remove_when_empty(context.patiently(5))?;
    let pod = root.child("kubepods")?.child("pod8c5e7f1a-0d3b-4c4e-9a55-2f6d1b0c9e77")?;
    let container = pod.child(&"b2".repeat(32))?;
    let _worker = Worker::start(context, Some(&container), &["sleep"])?;
    std::thread::sleep(std::time::Duration::from_millis(300));
    check_metrics(context, &agent.get("/metrics")?.body)?;
    Ok(())
}
