//! Counts of a cgroup's block requests, compared with those of the device and of `io.stat`.

use super::support::{count, settled};
use crate::fixture::{Agent, AgentOptions, IoOperations, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::{Moved, Took};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("block_requests", requests_match_device).needs(&[
    Capability::Root,
    Capability::DiskTemp,
    Capability::Btf,
    Capability::Loopback,
])];

const BLOCKS: u64 = 200;

/// Every block request of a cgroup is in its histogram, and none of another cgroup.
fn requests_match_device(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let group = root.child("disk")?;
    let file = context.temp.join("direct");
    let (path, blocks) = (file.display().to_string(), BLOCKS.to_string());

    let before = device(context)?;
    let worker = Worker::start(context, Some(&group), &["write-direct", &path, &blocks, "65536"])?;
    let begun = std::time::Instant::now();
    let moved: Moved = worker.report(context.patiently(30))?;
    let took = begun.elapsed();
    let all = device(context)?.since(before);
    ensure_eq!(moved.count, BLOCKS, "blocks written");

    let cgroup = settled(&client, &group)?;
    let writes = count(cgroup.block_write.as_ref());
    println!("write requests: {writes} by eBPF, {} of the device by its counters", all.writes);
    ensure!(writes >= BLOCKS, "{writes} write requests counted for {BLOCKS} blocks");
    compare("write", writes, all.writes, IoOperations::of_cgroup(&group).ok().map(|files| files.writes))?;
    let sum = cgroup.block_write.map_or(0, |histogram| histogram.sum_ns);
    // The worker writes one block at a time, so the sum of the latencies is at most the time of the whole
    // work.
    ensure!(sum > 0 && u128::from(sum) <= took.as_nanos(), "requests took {sum} ns of {took:?}");

    // O_DIRECT left nothing in the page cache, so the file is read from the device. There may be more reads
    // than that: pages of the worker's own binary, if the cache had dropped them.
    let worker = Worker::start(context, Some(&group), &["read-file", &path, "1"])?;
    let _: Took = worker.report(context.patiently(30))?;
    let all = device(context)?.since(before);
    let reads = count(settled(&client, &group)?.block_read.as_ref());
    println!("read requests: {reads} by eBPF, {} of the device by its counters", all.reads);
    ensure!(reads > 0, "no read request counted");
    compare("read", reads, all.reads, IoOperations::of_cgroup(&group).ok().map(|files| files.reads))
}

/// Checks that the cgroup's requests are at most the device's and, on cgroup v2, within a tenth of `io.stat`
/// (which counts before requests are merged or split).
fn compare(kind: &str, seen: u64, device: u64, cgroup: Option<u64>) -> Result<(), Failure> {
    ensure!(seen <= device, "{seen} {kind} requests counted for the cgroup, {device} for the whole device");
    if let Some(cgroup) = cgroup {
        let differ = seen.abs_diff(cgroup);
        ensure!(differ <= cgroup / 10 + 2, "{seen} {kind} requests counted, io.stat says {cgroup}");
    }
    Ok(())
}

/// Counters of the device that holds the test's temporary directory.
fn device(context: &Context) -> Result<IoOperations, Failure> {
    IoOperations::of_device(context.temp.path()).map_err(Failure::file(context.temp.path()))
}
