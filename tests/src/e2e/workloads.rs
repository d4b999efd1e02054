//! The workloads without an agent, compared with the kernel's counters: if one of these fails, the results of
//! the others mean nothing.

use std::os::unix::process::ExitStatusExt;

use super::support::{MIB, eventually, kill_victims, within};
use crate::fixture::{IoOperations, TestRoot, Worker, file_of_zeros};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::{Moved, Port, Processed, Scheduled, Took};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("workload_oom", oom).needs(&[Capability::Root, Capability::MemoryCgroup]).without_agent(),
    Test::new("workload_spin", spin)
        .needs(&[Capability::Root, Capability::CpuCgroup, Capability::Schedstat])
        .without_agent(),
    Test::new("workload_processes", processes).without_agent(),
    Test::new("workload_reclaim", reclaim)
        .needs(&[Capability::Root, Capability::MemoryCgroup, Capability::DiskTemp])
        .without_agent(),
    Test::new("workload_block", block).needs(&[Capability::Root, Capability::DiskTemp]).without_agent(),
    Test::new("workload_network", network).needs(&[Capability::Root, Capability::Loopback]).without_agent(),
];

/// The kernel counts each kill of the OOM workload in the victim's cgroup.
fn oom(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let parent = root.child("parent")?;
    parent.limit_memory(16 * MIB)?;
    let child = parent.child("child")?;
    let victims = kill_victims(context, &child, 10, 64 * MIB)?;
    ensure_eq!(victims.len(), 10, "victims reported");
    ensure_eq!(victims.iter().filter(|victim| victim.depth == 2).count(), 5, "grandchildren among them");
    ensure_eq!(child.kernel_oom_kills()?, 10, "the kernel's oom_kill of the child");
    ensure_eq!(parent.kernel_oom_kills()?, 0, "the kernel's oom_kill of the parent alone");
    child.remove_when_empty(context.patiently(2))?;
    Ok(())
}

/// The CPU time of a busy worker by schedstat agrees with the cgroup's files.
fn spin(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let group = root.child("busy")?;
    let before = group.kernel_cpu_ns()?;
    let worker = Worker::start(context, Some(&group), &["spin", "1000"])?;
    let scheduled: Scheduled = worker.report(context.patiently(20))?;
    // On a slow machine it runs for tens of milliseconds until its report is written: both are read while it
    // waits.
    let (own, used) = eventually(context.patiently(5), "the worker runs on after its report", || {
        let own = on_cpu_ns(worker.pid())?;
        let used = group.kernel_cpu_ns()? - before;
        Ok((on_cpu_ns(worker.pid())? == own).then_some((own, used)))
    })?;
    let reported = scheduled.on_cpu_in_all_ns;
    ensure!(reported <= own, "the worker says {reported} ns on CPU, schedstat later {own} ns");
    ensure!(
        within(own, used, 5.0) && used > 100_000_000,
        "schedstat says {own} ns on CPU, the cgroup's files {used} ns"
    );
    let status = worker.finish(context.patiently(5))?;
    ensure!(status.success(), "the worker ended with {status}");
    Ok(())
}

/// How long a process has run, by its schedstat.
fn on_cpu_ns(pid: u32) -> Result<u64, Failure> {
    let path = format!("/proc/{pid}/schedstat");
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let first = text.split(' ').next().and_then(|first| first.parse().ok());
    first.ok_or_else(|| Failure::Unexpected(format!("{path}: {text:?}")))
}

/// The process workload forks, executes and exits as often as ordered, and workers end with the ordered
/// signal or exit code.
fn processes(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let group = root.child("many")?;
    let arguments = ["processes", "30", "--execs", "10", "--killed", "5"];
    let worker = Worker::start(context, Some(&group), &arguments)?;
    let done: Processed = worker.report(context.patiently(20))?;
    ensure_eq!(done, Processed { forks: 30, execs: 10, exits: 30, signal_exits: 5 }, "what was done");
    worker.finish(context.patiently(5))?;
    let mut worker = Worker::start(context, Some(&group), &["segv"])?;
    ensure_eq!(worker.wait(context.patiently(5))?.signal(), Some(libc::SIGSEGV), "its signal");
    let mut worker = Worker::start(context, Some(&group), &["exit", "3"])?;
    ensure_eq!(worker.wait(context.patiently(5))?.code(), Some(3), "its exit code");
    Ok(())
}

/// Reading a large file in a small cgroup meets its memory limit without a kill.
fn reclaim(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let group = root.child("small")?;
    group.limit_memory(32 * MIB)?;
    let file = context.temp.join("large");
    file_of_zeros(&file, 128 * MIB).map_err(Failure::file(&file))?;
    let path = file.display().to_string();
    let worker = Worker::start(context, Some(&group), &["read-file", &path, "2"])?;
    let _: Took = worker.report(context.patiently(20))?;
    ensure!(group.reached_memory_limit()?, "reading the file never reached the memory limit");
    ensure_eq!(group.kernel_oom_kills()?, 0, "oom_kill, though only page cache had to be reclaimed");
    Ok(())
}

/// Direct writes reach the device, one request or more for each block.
fn block(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let group = root.child("disk")?;
    let directory = context.temp.path();
    let path = context.temp.join("direct").display().to_string();
    let before = IoOperations::of_device(directory).map_err(Failure::file(directory))?;
    let worker = Worker::start(context, Some(&group), &["write-direct", &path, "50", "65536"])?;
    let moved: Moved = worker.report(context.patiently(20))?;
    let device = IoOperations::of_device(directory).map_err(Failure::file(directory))?.since(before);
    ensure_eq!(moved, Moved { count: 50, bytes: 50 * 65536 }, "blocks written");
    ensure!(device.writes >= 50, "the device counts {} writes for 50 blocks", device.writes);
    if let Ok(cgroup) = IoOperations::of_cgroup(&group) {
        ensure!((50..=60).contains(&cgroup.writes), "io.stat counts {} writes for 50 blocks", cgroup.writes);
    }
    Ok(())
}

/// All datagrams sent over loopback are received.
fn network(context: &Context) -> Result<(), Failure> {
    let receiver = Worker::start(context, None, &["udp-receive", "200"])?;
    let Port { port } = receiver.report(context.patiently(5))?;
    let sender = Worker::start(context, None, &["udp-send", &port.to_string(), "200", "1000"])?;
    let sent: Moved = sender.report(context.patiently(5))?;
    let received: Moved = receiver.report(context.patiently(5))?;
    ensure_eq!(sent, Moved { count: 200, bytes: 200_000 }, "datagrams sent");
    ensure_eq!(received, sent, "datagrams received");
    Ok(())
}
