//! CPU time counted at the scheduler's hooks, compared with the kernel's files; time waited, compared with
//! schedstat.

use super::support::{count, known, settled, within};
use crate::fixture::{Agent, AgentOptions, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::Scheduled;
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("cpu_matches_files", matches_files).needs(&[
        Capability::Root,
        Capability::CpuCgroup,
        Capability::Btf,
        Capability::Loopback,
    ]),
    Test::new("cpu_wait_matches_schedstat", wait_matches).needs(&[
        Capability::Root,
        Capability::Schedstat,
        Capability::Btf,
        Capability::Loopback,
    ]),
];

/// CPU time of a cgroup busy for ten seconds (three on an emulated machine) is within 2 % of the kernel's
/// files.
fn matches_files(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let group = root.child("busy")?;
    let mut worker = Worker::spawn(context, Some(&group), &["spin", context.scaled(["10000", "3000"])])?;
    let before = settled(&client, &group)?;
    let files_before = group.kernel_cpu_ns()?;
    worker.go()?;
    let scheduled: Scheduled = worker.report(context.patiently(30))?;
    let after = settled(&client, &group)?;
    let files = group.kernel_cpu_ns()? - files_before;

    let on_cpu = known(after.on_cpu_ns, "on_cpu_ns")? - known(before.on_cpu_ns, "on_cpu_ns")?;
    println!("on CPU by eBPF {on_cpu} ns, by the kernel's files {files} ns, by schedstat {scheduled:?}");
    ensure!(files > 1_000_000_000, "the worker got only {files} ns");
    ensure!(within(on_cpu, files, 2.0), "eBPF counts {on_cpu} ns on CPU, the kernel's files {files} ns");
    let read = known(after.cpu_usage_ns, "cpu_usage_ns")? - known(before.cpu_usage_ns, "cpu_usage_ns")?;
    ensure!(within(read, files, 1.0), "the agent reads {read} ns from the file that says {files} ns");
    Ok(())
}

/// With two busy processes for each CPU, the histogram of waits agrees with schedstat within 5 %.
fn wait_matches(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let group = root.child("crowd")?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let mut workers = (0..2 * cpus)
        .map(|_| Worker::spawn(context, Some(&group), &["spin", context.scaled(["4000", "2500"])]))
        .collect::<Result<Vec<_>, _>>()?;
    let before = settled(&client, &group)?;
    // Read by the test: a worker would wait for a CPU before it could read it itself.
    let waited_before = workers.iter().map(|worker| waited_ns(worker.pid())).sum::<Result<u64, _>>()?;
    for worker in &mut workers {
        worker.go()?;
    }
    let mut waited = 0;
    for worker in &workers {
        let scheduled: Scheduled = worker.report(context.patiently(60))?;
        waited += scheduled.waited_in_all_ns;
    }
    let waited = waited - waited_before;
    let after = settled(&client, &group)?;

    let sum = |group: &nodewarden_proto::nodewarden::v1::Cgroup| {
        group.cpu_wait.as_ref().map(|histogram| histogram.sum_ns)
    };
    let seen = known(sum(&after), "cpu_wait")? - sum(&before).unwrap_or(0);
    println!("waited by eBPF {seen} ns, by schedstat {waited} ns");
    ensure!(waited > 100_000_000, "the workers hardly competed for CPUs: they waited {waited} ns");
    ensure!(within(seen, waited, 5.0), "eBPF counts {seen} ns waited, schedstat {waited} ns");
    ensure!(count(after.cpu_wait.as_ref()) > count(before.cpu_wait.as_ref()), "the histogram has no values");
    ensure!(known(after.preempted_switches, "preempted_switches")? > 0, "no switch was a preemption");
    ensure_eq!(after.cpu_wait.as_ref().map_or(0, |histogram| histogram.buckets.len()), 24, "buckets");
    Ok(())
}

/// Nanoseconds that a process has waited for a CPU so far (Documentation/scheduler/sched-stats.rst).
fn waited_ns(pid: u32) -> Result<u64, Failure> {
    let path = format!("/proc/{pid}/schedstat");
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let waited = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    waited.ok_or_else(|| Failure::Unexpected(format!("unexpected content of {path}: {text:?}")))
}
