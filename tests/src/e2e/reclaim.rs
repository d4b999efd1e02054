//! Reclaim of a cgroup that reads more than its memory limit can cache.

use super::support::{MIB, known, settled};
use crate::fixture::{Agent, AgentOptions, TestRoot, Worker, file_of_zeros, parse_samples};
use crate::harness::{Capability, Context, Failure, Test};
use crate::page::page_bytes;
use crate::worker::report::Took;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("reclaim_stalls_are_counted", stalls).needs(&[
    Capability::Root,
    Capability::MemoryCgroup,
    Capability::DiskTemp,
    Capability::Btf,
    Capability::Loopback,
])];

/// Reclaim stalls and reclaimed pages are counted for a cgroup at its limit, and not for one without a limit.
fn stalls(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let (tight, roomy) = (root.child("tight")?, root.child("roomy")?);
    tight.limit_memory(64 * MIB)?;
    let file = context.temp.join("large");
    file_of_zeros(&file, 256 * MIB).map_err(Failure::file(&file))?;
    let path = file.display().to_string();

    let worker = Worker::start(context, Some(&tight), &["read-file", &path, "2"])?;
    let Took { took_ns } = worker.report(context.patiently(30))?;
    ensure!(tight.reached_memory_limit()?, "the workload never reached its limit");
    let stalled = known(settled(&client, &tight)?.reclaim_stall_ns, "reclaim_stall_ns")?;
    ensure!(stalled > 0, "no stall was counted");
    ensure!(stalled <= took_ns, "{stalled} ns stalled in {took_ns} ns of work");

    let samples = parse_samples(&agent.get("/metrics")?.text());
    let value = |name: &str| {
        samples
            .iter()
            .filter(|sample| sample.name == name)
            .filter(|sample| sample.labels.get("id").is_some_and(|id| id == tight.path()))
            .find(|sample| sample.labels.get("kind").is_some_and(|kind| kind == "memcg"))
            .map(|sample| sample.value)
    };
    ensure!(
        value("nodewarden_cgroup_reclaims_total").is_some_and(|n| n > 0.0),
        "no memcg reclaim in /metrics"
    );
    // Twice 256 MiB went through 64 MiB: far more than half of it had to be reclaimed again.
    let pages = value("nodewarden_cgroup_reclaimed_pages_total").unwrap_or(0.0);
    ensure!(pages * page_bytes() as f64 > (128 * MIB) as f64, "only {pages} pages reclaimed");

    let worker = Worker::start(context, Some(&roomy), &["sleep"])?;
    worker.finish(context.patiently(5))?;
    ensure_eq!(
        settled(&client, &roomy)?.reclaim_stall_ns.unwrap_or(0),
        0,
        "stall of a cgroup without a limit"
    );
    Ok(())
}
