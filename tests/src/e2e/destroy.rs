//! Pods full of processes that fork are destroyed: no process and no directory is left, and nobody else is hurt.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::cgroup::control::{Bound, Cgroupfs, CpuShare, Limits, Manager, Presence};

use crate::fixture::{Group, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, REPORTED, Test, command_line_contains};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("destroy_pods_of_forking_processes", forking_pods)
    .needs(&[Capability::Root, Capability::MemoryCgroup, Capability::PidsCgroup])
    .timeout(240)
    .without_agent()];

const PODS: usize = 200;
/// Every so many pods one is a fork bomb.
const BOMB_EVERY: usize = 20;
/// Processes that a pod may have.
const PIDS_MAX: u64 = 32;
/// Destroyed at a time, as the agent does.
const AT_A_TIME: usize = 4;
/// For one pod.
const PATIENCE: u64 = 30;

struct Pod {
    path: String,
    /// The first of its processes. Held, so that it is reaped in the end.
    worker: Worker,
}

fn forking_pods(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let layout = Arc::new(Layout::detect()?);
    let manager = Manager::new(Arc::new(Cgroupfs::new(layout.clone())), layout);
    let bystanders = root.child("bystanders")?;
    let mut bystander = Worker::start(context, Some(&bystanders), &["fork-forever"])?;

    let begun = Instant::now();
    let mut pods = (0..PODS).map(|n| start(context, &root, &manager, n)).collect::<Result<Vec<_>, _>>()?;
    // All at once: they leave little of the CPUs to others.
    pods.iter_mut().try_for_each(|pod| pod.worker.go())?;
    let full = Instant::now() + context.patiently(20);
    for bomb in pods.iter().step_by(BOMB_EVERY) {
        while (manager.pids(&bomb.path)?.len() as u64) < PIDS_MAX / 2 {
            ensure!(Instant::now() < full, "the fork bomb in {} does not fork", bomb.path);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    println!("{PODS} pods made and filled in {:.1} s", begun.elapsed().as_secs_f64());

    let begun = Instant::now();
    let paths = pods.iter().map(|pod| pod.path.as_str()).collect::<Vec<_>>();
    let times = destroy_all(&manager, &paths, context.patiently(PATIENCE))?;
    let took = begun.elapsed();
    let killed: usize = times.values().map(|(_, killed)| killed).sum();
    let slowest = times.values().map(|(took, _)| *took).max().unwrap_or_default();
    println!(
        "{REPORTED}{PODS} pods destroyed in {:.3} s, the slowest in {:.1} ms; {killed} processes found alive",
        took.as_secs_f64(),
        slowest.as_secs_f64() * 1e3
    );

    for pod in &pods {
        ensure_eq!(manager.presence(&pod.path), Presence::Nowhere, "what is left of {}", pod.path);
    }
    let own = manager.pids(bystanders.path())?;
    let mut left = command_line_contains(&context.prefix());
    // Of the bystander's own children one may have come and gone between the looks.
    left.retain(|(pid, line)| {
        line.contains(" worker ")
            && !own.contains(&(*pid as i32))
            && PathBuf::from(format!("/proc/{pid}/exe")).exists()
    });
    ensure!(left.is_empty(), "processes of the pods that still run: {left:?}");
    ensure!(bystander.wait(Duration::ZERO).is_err(), "a process of another cgroup was killed");
    ensure!(manager.children(root.group().path())?.len() == 1, "only the bystanders' cgroup is left");
    Ok(())
}

/// A pod with two containers and, in one of them, a process that waits to fork in one way or another.
fn start(context: &Context, root: &TestRoot, manager: &Manager, n: usize) -> Result<Pod, Failure> {
    let path = format!("{}/pod{n}", root.group().path());
    let limits = Limits {
        cpu: Some(CpuShare::Shares(2)),
        memory_max: Some(Bound::At(256 << 20)),
        pids_max: Some(Bound::At(PIDS_MAX)),
        ..Limits::default()
    };
    manager.create(&path, &limits)?;
    for container in ["c1", "c2"] {
        manager.create(&format!("{path}/{container}"), &Limits::default())?;
    }
    let group = Group::new(Arc::clone(&context.layout), format!("{path}/c{}", 1 + n % 2));
    let work: &[&str] = match n {
        _ if n.is_multiple_of(BOMB_EVERY) => &["fork-bomb"],
        _ if n.is_multiple_of(2) => &["fork-forever"],
        // Ends at pids.max, with all children alive.
        _ => &["fork-until-refused", "8"],
    };
    let worker = Worker::spawn(context, Some(&group), work)?;
    if n.is_multiple_of(3) {
        leave_unified(context, &worker)?;
    }
    Ok(Pod { path, worker })
}

/// On hybrid, as a container of a runtime that knows v1 only: `cgroup.kill` does not reach it.
fn leave_unified(context: &Context, worker: &Worker) -> Result<(), Failure> {
    if context.layout.name() != "hybrid" {
        return Ok(());
    }
    let Some(unified) = context.layout.unified() else { return Ok(()) };
    let procs = unified.mount.join("cgroup.procs");
    std::fs::write(&procs, worker.pid().to_string()).map_err(Failure::file(procs))
}

/// Time and processes killed of each.
type Times = BTreeMap<String, (Duration, usize)>;

fn destroy_all(manager: &Manager, pods: &[&str], patience: Duration) -> Result<Times, Failure> {
    let waiting = Mutex::new(pods.iter().copied());
    let take = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(pod) = take() {
                    let result = manager.destroy(pod, patience);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((pod.to_owned(), result));
                }
            });
        }
    });
    let mut times = Times::new();
    for (path, result) in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let destroyed = result.map_err(|error| Failure::Unexpected(error.to_string()))?;
        times.insert(path, (destroyed.took, destroyed.killed));
    }
    ensure_eq!(times.len(), pods.len(), "pods destroyed");
    Ok(times)
}
