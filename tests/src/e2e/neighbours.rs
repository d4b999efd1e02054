//! Whom containers waited for: for a CPU compared with schedstat, for memory with the stalls that the topic
//! reclaim counts, for a disk with how long the requests took.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use nodewarden_proto::nodewarden::v1::{Cgroup, NeighbourWait};

use super::augment::fixture::Augmented;
use super::support::{MIB, known, settled, within};
use crate::e2e::pressure::fixture::output_of;
use crate::fixture::{Client, Group, Worker, direct_reclaims, file_of_zeros};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::{Moved, Scheduled, Took};
use crate::{ensure, ensure_eq};

/// What every test here needs.
const NEEDS: &[Capability] = &[
    Capability::Root,
    Capability::MemoryCgroup,
    Capability::CpuQuota,
    Capability::Schedstat,
    Capability::DiskTemp,
    Capability::Btf,
    Capability::Loopback,
];

pub const TESTS: &[Test] = &[
    Test::new("neighbours_match_schedstat", match_schedstat).needs(NEEDS),
    Test::new("neighbours_of_a_shared_memory_limit", shared_limit).needs(NEEDS),
    Test::new("neighbours_of_a_disk", disk).needs(NEEDS),
];

const ONLY_NEIGHBOURS: &str = "events: Off, protection: Off, memoryHigh: Off, cpuIdle: Off, cpuBurst: Off, \
    eviction: Off, devices: Off, neighbours: Audit";

/// Two containers and a service compete for one CPU. What the first container waited is divided between the
/// other two as they ran, and is in all what the kernel says that it waited, within 5 %.
fn match_schedstat(context: &Context) -> Result<(), Failure> {
    let node = Augmented::new(context)?;
    let agent = node.start_with_few_rounds(ONLY_NEIGHBOURS, &context.temp.join("state"))?;
    let client = agent.client()?;
    let status = client.status()?;
    let topic = status.topics.iter().find(|topic| topic.topic == "neighbours");
    let topic = topic.ok_or_else(|| Failure::Unexpected("the topic neighbours is not shown".into()))?;
    ensure_eq!(topic.state, "on", "the topic neighbours ({})", topic.reason);

    let waiting = node.idle.child(&"b".repeat(64))?;
    let noisy = node.opted_out.child(&"c".repeat(64))?;
    let service = node.child("noisy.service")?;
    // The work goes on below the service's own cgroup, as that of some services does.
    let below = service.child("main")?;
    let mut workers = [&waiting, &noisy, &below]
        .into_iter()
        .map(|group| Worker::spawn(context, Some(group), &["spin", context.scaled(["4000", "2500"])]))
        .collect::<Result<Vec<_>, _>>()?;
    for worker in &workers {
        pin_to_first_cpu(worker.pid())?;
    }
    for worker in &mut workers {
        worker.go()?;
    }
    let reports = workers
        .iter()
        .map(|worker| worker.report::<Scheduled>(context.patiently(60)))
        .collect::<Result<Vec<_>, _>>()?;
    let waited = reports[0].waited_ns;
    let of_container = waits(&client, &waiting, "cpu")?;
    let sum: u64 = of_container.iter().map(|wait| wait.wait_ns).sum();
    println!("waited {waited} ns by schedstat, {sum} ns by eBPF: {of_container:?}");
    ensure!(waited > 1_000_000_000, "the containers hardly competed: {waited} ns");
    ensure!(within(sum, waited, 5.0), "eBPF counts {sum} ns waited, schedstat {waited} ns: {of_container:?}");
    let noisy_name = format!("/{}", "c".repeat(64));
    let behind = |is_it: &dyn Fn(&str) -> bool| {
        of_container.iter().filter(|wait| is_it(&wait.neighbour)).map(|wait| wait.wait_ns).sum::<u64>()
    };
    let of_noisy = behind(&|name| name.ends_with(&noisy_name));
    let of_service = behind(&|name| name == service.path());
    for (name, ns) in [("the other container", of_noisy), ("the service", of_service)] {
        ensure!(ns > sum / 4, "only {ns} ns of {sum} ns behind {name}: {of_container:?}");
    }
    ensure!(of_noisy + of_service > sum / 10 * 9, "too much of {sum} ns behind others: {of_container:?}");
    let of_other = waits(&client, &noisy, "cpu")?;
    ensure!(!of_other.iter().any(|wait| wait.neighbour.ends_with(&noisy_name)), "itself: {of_other:?}");
    ensure_eq!(waits(&client, &below, "cpu")?.len(), 0, "waits of what is no container");
    let explained = output_of(&agent, &["explain", &pod_uid(&of_other, &waiting)?])?;
    ensure!(
        explained.contains("waited for a CPU while these ran: ") && explained.contains(service.path()),
        "explained: {explained}"
    );
    Ok(())
}

/// A container that reclaims memory because its pod is at the limit waits for that pod, as long as its tasks
/// stall by the topic reclaim; what it reclaims for its own limit is not counted.
fn shared_limit(context: &Context) -> Result<(), Failure> {
    let node = Augmented::new(context)?;
    let agent = node.start_with_few_rounds(ONLY_NEIGHBOURS, &context.temp.join("state"))?;
    let client = agent.client()?;
    let file = context.temp.join("large");
    file_of_zeros(&file, 256 * MIB).map_err(Failure::file(&file))?;
    let path = file.display().to_string();
    let reads = |group: &Group| -> Result<Cgroup, Failure> {
        let worker = Worker::start(context, Some(group), &["read-file", &path, context.scaled(["2", "1"])])?;
        let _: Took = worker.report(context.patiently(30))?;
        Ok(settled(&client, group)?)
    };

    node.idle.limit_memory(64 * MIB)?;
    let sharing = node.idle.child(&"b".repeat(64))?;
    let before = direct_reclaims()?;
    let stalled = known(reads(&sharing)?.reclaim_stall_ns, "reclaim_stall_ns")?;
    let was_short = direct_reclaims()? > before;
    let found = waits(&client, &sharing, "memory")?;
    let waited: u64 = found.iter().map(|wait| wait.wait_ns).sum();
    println!("stalled {stalled} ns, {found:?}");
    // The topic reclaim's program at the begin of a stall runs before the one that counts neighbours: that is
    // much of a stall on an emulated machine.
    let differ = context.scaled([15.0, 75.0]);
    ensure!(stalled > 0 && within(waited, stalled, differ), "{waited} ns waited, {stalled} ns stalled");
    let uid = node.idle.path().rsplit("/pod").next().unwrap_or_default().to_owned();
    ensure!(found.iter().any(|wait| wait.neighbour == uid), "not for the pod {uid}: {found:?}");
    // Beside other programs the machine itself may have been short of memory; then its counter says so.
    let is_allowed = |name: &str| name == uid || (was_short && name == "node");
    ensure!(found.iter().all(|wait| is_allowed(&wait.neighbour)), "not only for the pod {uid}: {found:?}");

    let own = node.opted_out.child(&"c".repeat(64))?;
    own.limit_memory(64 * MIB)?;
    let before = direct_reclaims()?;
    let stalled = known(reads(&own)?.reclaim_stall_ns, "reclaim_stall_ns")?;
    ensure!(stalled > 0, "the container never reached its own limit");
    let was_short = direct_reclaims()? > before;
    let mut found = waits(&client, &own, "memory")?;
    found.retain(|wait| !(was_short && wait.neighbour == "node"));
    ensure_eq!(found.len(), 0, "whom it waited for at its own limit: {found:?}");
    Ok(())
}

/// Of two containers that write to one disk at the same time each waits for the other, and not longer than
/// its requests took.
fn disk(context: &Context) -> Result<(), Failure> {
    let node = Augmented::new(context)?;
    let agent = node.start_with_few_rounds(ONLY_NEIGHBOURS, &context.temp.join("state"))?;
    let client = agent.client()?;
    let groups = [node.idle.child(&"b".repeat(64))?, node.opted_out.child(&"c".repeat(64))?];
    let mut workers = Vec::new();
    for (n, group) in groups.iter().enumerate() {
        let path = context.temp.join(&format!("direct{n}")).display().to_string();
        workers.push(Worker::spawn(context, Some(group), &["write-direct", &path, "400", "262144"])?);
    }
    for worker in &mut workers {
        worker.go()?;
    }
    for worker in &workers {
        let _: Moved = worker.report(context.patiently(60))?;
    }
    for (own, other) in [(&groups[0], "c"), (&groups[1], "b")] {
        let found = waits(&client, own, "disk")?;
        let name = format!("/{}", other.repeat(64));
        let of_other = found.iter().filter(|wait| wait.neighbour.ends_with(&name)).map(|wait| wait.wait_ns);
        let of_other: u64 = of_other.sum();
        let took = settled(&client, own)?.block_write.map_or(0, |histogram| histogram.sum_ns);
        println!("{of_other} ns behind the other of {took} ns: {found:?}");
        ensure!(of_other > 0, "it never waited for the other container: {found:?}");
        let all: u64 = found.iter().map(|wait| wait.wait_ns).sum();
        ensure!(all <= took, "{all} ns waited, but its requests took {took} ns: {found:?}");
    }
    Ok(())
}

/// What the agent says that a cgroup waited for a resource.
fn waits(client: &Client, group: &Group, resource: &str) -> Result<Vec<NeighbourWait>, Failure> {
    let all = settled(client, group)?.waits;
    Ok(all.into_iter().filter(|wait| wait.resource == resource).collect())
}

/// The uid of the pod of the container `waiting`, as it is named among the waits of its neighbour.
fn pod_uid(waits: &[NeighbourWait], waiting: &Group) -> Result<String, Failure> {
    let id = waiting.path().rsplit('/').next().unwrap_or_default();
    let uid = waits.iter().find_map(|wait| wait.neighbour.strip_suffix(id)?.strip_suffix('/'));
    let uid = uid.map(str::to_owned);
    uid.ok_or_else(|| Failure::Unexpected(format!("{} is not among {waits:?}", waiting.path())))
}

fn pin_to_first_cpu(pid: u32) -> Result<(), Failure> {
    let refused = |what| move |error| Failure::Unexpected(format!("{what} of {pid}: {error}"));
    let allowed = sched_getaffinity(Pid::from_raw(0)).map_err(refused("sched_getaffinity"))?;
    let first = (0..CpuSet::count()).find(|cpu| allowed.is_set(*cpu).unwrap_or(false)).unwrap_or_default();
    let mut one = CpuSet::new();
    let set = one.set(first).and_then(|()| sched_setaffinity(Pid::from_raw(pid as i32), &one));
    set.map_err(refused("sched_setaffinity"))
}
