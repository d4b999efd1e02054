//! Destroying pods whose processes fork all the time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::cgroup::control::{Bound, Cgroupfs, CpuShare, Limits, Manager, Presence};
use parking_lot::Mutex;

use crate::fixture::{Group, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, REPORTED, Test, command_line_contains};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("destroy_pods_of_forking_processes", forking_pods)
    .needs(&[Capability::Root, Capability::MemoryCgroup, Capability::PidsCgroup])
    .timeout(240)
    .without_agent()];

const PODS: usize = 200;
/// One in this many pods is a fork bomb.
const BOMB_EVERY: usize = 20;
/// `pids.max` of a pod.
const PIDS_MAX: u64 = 32;
/// Pods destroyed at the same time, as many as the agent does.
const AT_A_TIME: usize = 4;
/// Seconds until the destruction of one pod fails.
const DESTROY_SECONDS: u64 = 30;

struct Pod {
    path: String,
    /// The first of its processes. Held here so that it is reaped in the end.
    worker: Worker,
}

/// Destroying 200 pods of forking processes leaves no process and no cgroup of theirs, and kills no other
/// process.
fn forking_pods(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let layout = Arc::new(Layout::detect()?);
    let manager = Manager::new(Arc::new(Cgroupfs::new(layout.clone())), layout);
    let bystanders = root.child("bystanders")?;
    let mut bystander = Worker::start(context, Some(&bystanders), &["fork-forever"])?;

    let begun = Instant::now();
    let mut pods = (0..PODS).map(|n| start(context, &root, &manager, n)).collect::<Result<Vec<_>, _>>()?;
    // Only now, since they leave little CPU time for creating the other pods.
    pods.iter_mut().try_for_each(|pod| pod.worker.go())?;
    let deadline = Instant::now() + context.patiently(20);
    for bomb in pods.iter().step_by(BOMB_EVERY) {
        while (manager.pids(&bomb.path)?.len() as u64) < PIDS_MAX / 2 {
            ensure!(Instant::now() < deadline, "the fork bomb in {} does not fork", bomb.path);
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    println!("{PODS} pods created and filled in {:.1} s", begun.elapsed().as_secs_f64());

    let begun = Instant::now();
    let paths = pods.iter().map(|pod| pod.path.as_str()).collect::<Vec<_>>();
    let times = destroy_all(&manager, &paths, context.patiently(DESTROY_SECONDS))?;
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
    // A child of the bystander may have started and ended between the two readings.
    left.retain(|(pid, line)| {
        line.contains(" worker ")
            && !own.contains(&(*pid as i32))
            && PathBuf::from(format!("/proc/{pid}/exe")).exists()
    });
    ensure!(left.is_empty(), "processes of the pods that still run: {left:?}");
    ensure!(bystander.wait(Duration::ZERO).is_err(), "a process of another cgroup was killed");
    ensure!(manager.children(root.group().path())?.len() == 1, "cgroups other than the bystanders' are left");
    Ok(())
}

/// Creates a pod with two containers; the process in one of them waits for its order to fork, as a bomb,
/// forever, or until `pids.max` refuses.
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
        // Stops at pids.max, with all its children alive.
        _ => &["fork-until-refused", "8"],
    };
    let worker = Worker::spawn(context, Some(&group), work)?;
    if n.is_multiple_of(3) {
        leave_unified(context, &worker)?;
    }
    Ok(Pod { path, worker })
}

/// On a hybrid layout, moves the process out of the v2 cgroup, as of a runtime that knows only v1:
/// `cgroup.kill` does not reach it.
fn leave_unified(context: &Context, worker: &Worker) -> Result<(), Failure> {
    if context.layout.name() != "hybrid" {
        return Ok(());
    }
    let Some(unified) = context.layout.unified() else { return Ok(()) };
    let procs = unified.mount.join("cgroup.procs");
    std::fs::write(&procs, worker.pid().to_string()).map_err(Failure::file(procs))
}

/// By the pod's path: how long its destruction took, and how many processes it killed.
type Times = BTreeMap<String, (Duration, usize)>;

/// Destroys the pods, several at a time.
fn destroy_all(manager: &Manager, pods: &[&str], timeout: Duration) -> Result<Times, Failure> {
    let waiting = Mutex::new(pods.iter().copied());
    let take = || waiting.lock().next();
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(pod) = take() {
                    let result = manager.destroy(pod, timeout);
                    done.lock().push((pod.to_owned(), result));
                }
            });
        }
    });
    let mut times = Times::new();
    for (path, result) in done.into_inner() {
        let destroyed = result.map_err(|error| Failure::Unexpected(error.to_string()))?;
        times.insert(path, (destroyed.took, destroyed.killed));
    }
    ensure_eq!(times.len(), pods.len(), "pods destroyed");
    Ok(times)
}
