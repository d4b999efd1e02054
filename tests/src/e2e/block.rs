//! Block requests of a cgroup: as many in the histogram as the kernel's files say.

use super::support::{count, settled};
use crate::fixture::{Agent, AgentOptions, IoOperations, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::{Moved, Took};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("block_requests", requests).needs(&[
    Capability::Root,
    Capability::DiskTemp,
    Capability::Btf,
    Capability::Loopback,
])];

const BLOCKS: u64 = 200;

fn requests(context: &Context) -> Result<(), Failure> {
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
    println!("write requests: {writes} by eBPF, {} of the device by its files", all.writes);
    ensure!(writes >= BLOCKS, "{writes} write requests counted for {BLOCKS} blocks");
    compare("write", writes, all.writes, IoOperations::of_cgroup(&group).ok().map(|files| files.writes))?;
    let sum = cgroup.block_write.map_or(0, |histogram| histogram.sum_ns);
    // One at a time: together they took no longer than the work, and not nothing.
    ensure!(sum > 0 && u128::from(sum) <= took.as_nanos(), "requests took {sum} ns of {took:?}");

    // O_DIRECT left nothing in the cache: reading comes from the device. The group may have read before: the worker's
    // own pages, where the cache had lost them.
    let worker = Worker::start(context, Some(&group), &["read-file", &path, "1"])?;
    let _: Took = worker.report(context.patiently(30))?;
    let all = device(context)?.since(before);
    let reads = count(settled(&client, &group)?.block_read.as_ref());
    println!("read requests: {reads} by eBPF, {} of the device by its files", all.reads);
    ensure!(reads > 0, "no read request counted");
    compare("read", reads, all.reads, IoOperations::of_cgroup(&group).ok().map(|files| files.reads))
}

/// No more than the whole device did; and what `io.stat` of cgroup v2 says, where that exists, within a tenth
/// (it counts before requests are merged or split).
fn compare(kind: &str, seen: u64, device: u64, cgroup: Option<u64>) -> Result<(), Failure> {
    ensure!(seen <= device, "{seen} {kind} requests counted for the cgroup, {device} for the whole device");
    if let Some(cgroup) = cgroup {
        let differ = seen.abs_diff(cgroup);
        ensure!(differ <= cgroup / 10 + 2, "{seen} {kind} requests counted, io.stat says {cgroup}");
    }
    Ok(())
}

fn device(context: &Context) -> Result<IoOperations, Failure> {
    IoOperations::of_device(context.temp.path()).map_err(Failure::file(context.temp.path()))
}
