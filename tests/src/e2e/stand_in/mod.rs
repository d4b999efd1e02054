//! What the agent does when a runtime's events are lost and when all is well, against a stand-in for a
//! runtime that can be made to lose them. What a real runtime does is tested in `pods`.

pub mod fixture;
pub mod rates;

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use nodewarden_proto::runtime::v1 as cri;

use crate::ensure;
use crate::fixture::{CgroupError, Cri, EVENTS_ASKED_FOR, LISTED_BY_OWNER, RuntimeFaults};
use crate::harness::{Capability, Context, Failure, Test};
use fixture::Scale;

pub const TESTS: &[Test] = &[
    Test::new("stand_in_listed_rarely", listed_rarely).timeout(120).in_parallel().needs(NEEDS),
    Test::new("stand_in_without_events", without_events).timeout(180).in_parallel().needs(NEEDS),
    Test::new("stand_in_late_and_lost", late_and_lost).timeout(180).in_parallel().needs(NEEDS),
    Test::new("stand_in_start_cut_off", cut_off).timeout(120).in_parallel().needs(NEEDS),
    Test::new("stand_in_unowned", unowned).timeout(240).in_parallel().needs(NEEDS),
];

const NEEDS: &[Capability] = &[Capability::Root, Capability::Loopback];
const PODS: usize = 5;
/// Limit in seconds for starting and ending the pods.
const LIMIT: u64 = 60;
/// How long the agent has after the start until it trusts the runtime's events and has tidied up.
const REST: Duration = Duration::from_secs(8);
const UID: &str = "io.kubernetes.pod.uid";

/// While the runtime sends events and nothing happens, it is not listed every two seconds.
fn listed_rarely(context: &Context) -> Result<(), Failure> {
    let scale = Scale::new(context, "lists", RuntimeFaults::default())?;
    scale.start(PODS, context.patiently(LIMIT))?;
    std::thread::sleep(REST);
    let made = lists_in_30_s(&scale)?;
    // The regular one may fall into this time.
    ensure!(made <= 1, "{made} lists in 30 s");
    scale.clear(context.patiently(LIMIT))
}

/// A runtime that has no events (containerd before 1.7) is listed every five seconds, at the next
/// housekeeping period of two, because the kernel reports which containers end: one that is killed starts
/// again. As soon as it has events (a newer containerd has taken its place) it is not listed so often.
fn without_events(context: &Context) -> Result<(), Failure> {
    // It is asked at the start, and every 30 s.
    let faults = RuntimeFaults { refuse_events: 2, ..Default::default() };
    let scale = Scale::new(context, "without-events", faults)?;
    scale.start(PODS, context.patiently(LIMIT))?;
    std::thread::sleep(REST);
    let made = lists_in_30_s(&scale)?;
    ensure!((3..=6).contains(&made), "{made} lists in 30 s");
    kill_and_wait_for_start(context, &scale)?;
    let limit = context.patiently(LIMIT);
    scale.runtime().wait_until(limit, "sending events", |notes| notes.calls(EVENTS_ASKED_FOR) > 2)?;
    std::thread::sleep(REST);
    let made = lists_in_30_s(&scale)?;
    ensure!(made <= 1, "{made} lists in 30 s with events");
    scale.clear(context.patiently(LIMIT))
}

/// How often the agent lists what the runtime has of it within 30 s.
fn lists_in_30_s(scale: &Scale) -> Result<u64, Failure> {
    let lists = || Ok::<_, Failure>(scale.runtime().notes()?.calls(LISTED_BY_OWNER));
    let before = lists()?;
    std::thread::sleep(Duration::from_secs(30));
    Ok(lists()? - before)
}

/// The kernel reports a container's end, the runtime notices it seconds later than it is waited for, and its
/// event is lost: the container starts again long before the next regular list.
fn late_and_lost(context: &Context) -> Result<(), Failure> {
    let faults = RuntimeFaults { lose_events: true, late: Duration::from_secs(5), ..Default::default() };
    let scale = Scale::new(context, "late", faults)?;
    scale.start(PODS, context.patiently(LIMIT))?;
    std::thread::sleep(REST);
    kill_and_wait_for_start(context, &scale)?;
    scale.clear(context.patiently(LIMIT))
}

/// Kills the main process of a container, which then has to start again.
fn kill_and_wait_for_start(context: &Context, scale: &Scale) -> Result<(), Failure> {
    let runtime = Cri::connect(scale.runtime().socket())?;
    let container = runtime.list_containers()?.into_iter().next();
    let container = container.ok_or_else(|| Failure::Unexpected("no container is listed".into()))?;
    let started = scale.runtime().notes()?.started;
    let pid = main_process(context, scale, &container)?;
    kill(Pid::from_raw(pid), Signal::SIGKILL).map_err(|error| Failure::file("kill")(error.into()))?;
    let limit = context.patiently(30);
    scale.runtime().wait_until(limit, "started again", |notes| notes.started > started)?;
    Ok(())
}

/// A container whose first start was interrupted, and that the runtime refuses to start afterwards, is
/// replaced by a new one although the restart policy is Never: it has not run.
fn cut_off(context: &Context) -> Result<(), Failure> {
    let faults = RuntimeFaults { cut_starts: true, ..Default::default() };
    let scale = Scale::new(context, "cut", faults)?;
    scale.start(1, context.patiently(LIMIT))?;
    let runtime = Cri::connect(scale.runtime().socket())?;
    let all = runtime.list_containers()?;
    let attempts: Vec<_> = all.iter().filter_map(|one| Some(one.metadata.as_ref()?.attempt)).collect();
    ensure!(attempts == [0, 0], "attempts of the containers: {attempts:?}");
    scale.clear(context.patiently(LIMIT))
}

/// A sandbox of this agent without a pod, of which no event tells, is found by the regular list and removed.
fn unowned(context: &Context) -> Result<(), Failure> {
    let faults = RuntimeFaults { lose_events: true, ..Default::default() };
    let scale = Scale::new(context, "unowned", faults)?;
    scale.start(1, context.patiently(LIMIT))?;
    std::thread::sleep(REST);
    let runtime = Cri::connect(scale.runtime().socket())?;
    let owned = runtime.list_sandboxes()?.into_iter().next();
    let owned = owned.ok_or_else(|| Failure::Unexpected("no sandbox is listed".into()))?;
    let uid = "00000000-1111-4222-8333-444444444444";
    let mut labels = owned.labels;
    labels.insert(UID.to_owned(), uid.to_owned());
    let parent = scale.root().child("unowned")?;
    let config = cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata { uid: uid.to_owned(), ..owned.metadata.unwrap_or_default() }),
        labels,
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: parent.path().to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let _pod = runtime.run_sandbox(config, context.problems())?;
    let before = scale.runtime().notes()?.calls(LISTED_BY_OWNER);
    scale.runtime().wait_until(context.patiently(90), "removed", |notes| notes.sandboxes == 1)?;
    let lists = scale.runtime().notes()?.calls(LISTED_BY_OWNER) - before;
    // A regular one, which finds it, and one that finds it again; and what the removal itself brings about.
    ensure!(lists <= 4, "{lists} lists until it was removed");
    scale.clear(context.patiently(LIMIT))
}

/// The only process of a container.
fn main_process(context: &Context, scale: &Scale<'_>, container: &cri::Container) -> Result<i32, Failure> {
    let hierarchy = context.layout.controller("memory");
    let hierarchy = hierarchy.ok_or(CgroupError::NoController { controller: "memory" })?;
    let uid = container.labels.get(UID).cloned().unwrap_or_default();
    let below = format!("kubepods/burstable/pod{uid}/{}/cgroup.procs", container.id);
    let path = scale.root().group().directory(hierarchy).join(below);
    let text = std::fs::read_to_string(&path).map_err(Failure::file(&path))?;
    let pid = text.trim().parse();
    pid.map_err(|error| Failure::Unexpected(format!("{} has {text:?}: {error}", path.display())))
}
