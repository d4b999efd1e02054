//! What the kernel programs count on a CPU that is exclusive for a cgroup, compared with what the processes
//! on it used, and with the time that passed.

use std::time::Duration;

use nodewarden_model::{CpuTurn, CpuUse, CpuUser, HookState};

use super::support::eventually;
use crate::fixture::{ExclusiveCpu, Group, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::Scheduled;
use crate::{ensure, ensure_eq};

const NEEDS: &[Capability] =
    &[Capability::Root, Capability::CpuCgroup, Capability::Schedstat, Capability::Btf];

pub const TESTS: &[Test] = &[
    Test::new("exclusive_cpus_count_owner_and_others", owner_and_others).needs(NEEDS),
    Test::new("exclusive_cpus_name_the_longest_turn", longest_turn).needs(NEEDS),
    Test::new("exclusive_cpus_cost_nothing_while_there_are_none", none).needs(NEEDS),
];

/// Of a time or a sum, in which it may differ.
const PERCENT: f64 = 3.0;

fn load() -> Result<ExclusiveCpu, Failure> {
    ExclusiveCpu::load(false).map_err(Failure::Skip)
}

fn unexpected(text: String) -> Failure {
    Failure::Unexpected(text)
}

/// Gives the CPU to a cgroup and waits for the first switch on it.
fn give(context: &Context, cpu: &mut ExclusiveCpu, owner: &Group) -> Result<(), Failure> {
    cpu.give(Some(owner)).map_err(unexpected)?;
    let (attached, status) = cpu.status();
    ensure!(attached && status.state == HookState::On, "{status:?}");
    eventually(context.patiently(5), "no switch on the CPU", || {
        let (reading, _) = cpu.read().map_err(unexpected)?;
        Ok(reading.since_switch.then_some(()))
    })
}

/// Starts a worker on the CPU that will be busy for so long.
fn spinner(
    context: &Context,
    cpu: &ExclusiveCpu,
    group: Option<&Group>,
    milliseconds: &str,
) -> Result<Worker, Failure> {
    let worker = Worker::spawn(context, group, &["spin", milliseconds])?;
    cpu.pin(worker.pid()).map_err(unexpected)?;
    Ok(worker)
}

/// A process below the owner's cgroup and one elsewhere share the CPU. Each is counted with the time that
/// schedstat shows (which contains the interrupts that came), and all users together with the time that
/// passed.
fn owner_and_others(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let owner = root.child("owner")?;
    let (below, elsewhere) = (owner.child("below")?, root.child("elsewhere")?);
    let mut cpu = load()?;
    let mut own = spinner(context, &cpu, Some(&below), "3000")?;
    let mut other = spinner(context, &cpu, Some(&elsewhere), "3000")?;
    give(context, &mut cpu, &owner)?;

    let (before, begin) = cpu.read().map_err(unexpected)?;
    own.go()?;
    other.go()?;
    let own: Scheduled = own.report(context.patiently(30))?;
    let other: Scheduled = other.report(context.patiently(30))?;
    let (after, end) = cpu.read().map_err(unexpected)?;
    let used = after.used.since(&before.used);
    println!("in {} ns: {used:?}; by schedstat the owner {own:?}, the other {other:?}", end - begin);

    near("all users and the time that passed", used.total_ns(), end - begin, 1.0)?;
    let interrupted = used.ns(CpuUser::Interrupt) + used.ns(CpuUser::Softirq);
    ensure!(own.on_cpu_ns > 500_000_000, "the owner's process got only {} ns", own.on_cpu_ns);
    at_most("the owner", used.ns(CpuUser::Owner), own.on_cpu_ns)?;
    at_most("schedstat of the owner", own.on_cpu_ns, used.ns(CpuUser::Owner) + interrupted)?;
    // Others may run on the CPU too.
    at_most("schedstat of the other", other.on_cpu_ns, used.ns(CpuUser::Other) + interrupted)?;
    ensure!(used.count(CpuUser::Owner) > 10 && used.count(CpuUser::Other) > 10, "switches: {used:?}");
    ensure!(used.count(CpuUser::Interrupt) > 0, "no interrupt in 3 seconds: {used:?}");
    ensure!(used.foreign_ns() >= used.ns(CpuUser::Other), "{used:?}");
    Ok(())
}

/// Fails if two times differ by more than so many percent.
fn near(what: &str, seen: u64, expected: u64, percent: f64) -> Result<(), Failure> {
    ensure!(super::support::within(seen, expected, percent), "{what}: {seen} ns, {expected} ns");
    Ok(())
}

/// Fails if a time is greater than another by more than `PERCENT`.
fn at_most(what: &str, seen: u64, most: u64) -> Result<(), Failure> {
    ensure!(seen as f64 <= most as f64 * (1.0 + PERCENT / 100.0), "{what} has {seen} ns, of {most} ns");
    Ok(())
}

/// A process elsewhere that nothing preempts has the longest turn, with its number and its command, and the
/// owner's process none.
fn longest_turn(context: &Context) -> Result<(), Failure> {
    const BUSY: u64 = 400_000_000;
    let root = TestRoot::new(context)?;
    let owner = root.child("owner")?;
    let mut cpu = load()?;
    let mut own = spinner(context, &cpu, Some(&owner), "1500")?;
    let mut other = spinner(context, &cpu, None, "400")?;
    real_time(other.pid())?;
    give(context, &mut cpu, &owner)?;
    own.go()?;
    cpu.read().map_err(unexpected)?;
    other.go()?;
    let _: Scheduled = other.report(context.patiently(30))?;
    let (reading, _) = cpu.read().map_err(unexpected)?;
    println!("{:?}", reading.longest);
    let of = |user| reading.longest.iter().find(|turn| turn.user == user);
    let Some(CpuTurn { ns, pid, name, .. }) = of(CpuUser::Other) else {
        return Err(unexpected(format!("no turn of another: {:?}", reading.longest)));
    };
    ensure_eq!(*pid, other.pid(), "whose the longest turn is");
    ensure!((BUSY / 4..BUSY * 3).contains(ns), "the longest turn took {ns} ns");
    let command = context.own.file_name().unwrap_or_default().to_string_lossy();
    ensure_eq!(*name, command.chars().take(15).collect::<String>(), "command");
    ensure!(of(CpuUser::Interrupt).is_some_and(|turn| !turn.name.is_empty()), "{:?}", reading.longest);

    // The next period has turns of its own.
    let (next, _) = cpu.read().map_err(unexpected)?;
    let left = next.longest.iter().any(|turn| turn.pid == other.pid() && turn.ns >= BUSY / 4);
    ensure!(!left, "a turn of the period before: {:?}", next.longest);
    Ok(())
}

/// Makes a process run before all that are not real-time.
fn real_time(pid: u32) -> Result<(), Failure> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: a valid structure.
    match unsafe { libc::sched_setscheduler(pid as i32, libc::SCHED_FIFO, &raw const priority) } {
        0 => Ok(()),
        _ => Err(Failure::Skip(format!("no real-time priority: {}", std::io::Error::last_os_error()))),
    }
}

/// The programs are attached while a CPU is exclusive and at no other time; what was counted stays.
fn none(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let (owner, next) = (root.child("owner")?, root.child("next")?);
    let mut cpu = load()?;
    cpu.measure();
    ensure!(
        !cpu.status().0 && cpu.costs().iter().all(|cost| !cost.name.starts_with("exclusive_")),
        "attached"
    );
    give(context, &mut cpu, &owner)?;
    let mut worker = spinner(context, &cpu, Some(&owner), "300")?;
    worker.go()?;
    let _: Scheduled = worker.report(context.patiently(30))?;
    let (counted, _) = cpu.read().map_err(unexpected)?;
    ensure!(counted.used.ns(CpuUser::Owner) > 100_000_000, "{counted:?}");

    cpu.give(None).map_err(unexpected)?;
    ensure!(!cpu.status().0, "still attached");
    let runs = |cpu: &ExclusiveCpu| {
        cpu.costs().iter().map(|cost| (cost.name.clone(), cost.run_count)).collect::<Vec<_>>()
    };
    // A program that was running has ended.
    std::thread::sleep(Duration::from_millis(50));
    let before = runs(&cpu);
    std::thread::sleep(Duration::from_millis(500));
    ensure_eq!(runs(&cpu), before, "runs of detached programs");

    // Given to another: the process of the first owner is foreign now, and its earlier time stays the
    // owner's.
    give(context, &mut cpu, &next)?;
    let mut worker = spinner(context, &cpu, Some(&owner), "300")?;
    worker.go()?;
    let scheduled: Scheduled = worker.report(context.patiently(30))?;
    let (reading, _) = cpu.read().map_err(unexpected)?;
    let used: CpuUse = reading.used.since(&counted.used);
    ensure!(reading.used.ns(CpuUser::Owner) >= counted.used.ns(CpuUser::Owner), "{reading:?}");
    let interrupted = used.ns(CpuUser::Interrupt) + used.ns(CpuUser::Softirq);
    at_most("schedstat", scheduled.on_cpu_ns, used.ns(CpuUser::Other) + interrupted)?;
    ensure!(used.ns(CpuUser::Owner) < scheduled.on_cpu_ns / 2, "the owner has nothing that runs: {used:?}");
    Ok(())
}
