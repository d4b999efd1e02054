//! What happens for a cgroup after it was removed: by then its slot may be another cgroup's, for which none
//! of it may count.

use std::path::PathBuf;
use std::time::Duration;

use nodewarden_ebpf_abi::Space;

use super::support::{count, eventually, known, settled};
use crate::ensure_eq;
use crate::fixture::{Agent, AgentOptions, FrozenDisk, Group, SlotMaps, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::worker::report::{Moved, Port};

pub const TESTS: &[Test] = &[
    Test::new("late_packets_count_for_no_other_cgroup", packets).needs(&[
        Capability::Root,
        Capability::UnifiedTree,
        Capability::Loopback,
        Capability::Btf,
    ]),
    Test::new("late_writes_count_for_no_other_cgroup", writes).needs(&[
        Capability::Root,
        Capability::DiskTemp,
        Capability::Loopback,
        Capability::Btf,
    ]),
];

/// So few slots that the slot of a removed cgroup is given away again soon.
const CAPACITY: u32 = 256;
const PACKETS: u64 = 100;

/// A socket outlives its cgroup: its packets do not count for the cgroup that has the slot now, even if a
/// program looked the old one up while it was removed.
fn packets(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &options())?;
    let client = agent.client()?;
    let (gone, refuge) = (root.child("gone")?, root.child("refuge")?);
    let receiver = Worker::start(context, Some(&refuge), &["udp-receive", &PACKETS.to_string()])?;
    let Port { port } = receiver.report(context.patiently(5))?;
    let arguments = ["udp-send-later", &port.to_string(), &PACKETS.to_string(), "100"];
    let mut sender = Worker::start(context, Some(&gone), &arguments)?;
    let _: Port = sender.report(context.patiently(5))?;

    let mut maps = maps(&agent)?;
    let key = maps.key(&gone, Space::Unified).map_err(unexpected)?;
    let slot = known(maps.slot(key), "a slot")?;
    enter(&sender, &refuge)?;
    gone.remove_when_empty(context.patiently(5))?;
    // On another CPU a program had read the table just before the cgroup was removed from it.
    maps.fill_cache(key, slot).map_err(unexpected)?;
    let (_others, owner) = next_owner(context, &root, &maps, Space::Unified, slot)?;

    sender.go()?;
    let sent: Moved = sender.report(context.patiently(10))?;
    ensure_eq!(sent.count, PACKETS, "datagrams sent");
    let counted = settled(&client, &owner)?;
    ensure_eq!(counted.tx_packets, Some(0), "packets of a socket of the slot's former owner");
    Ok(())
}

/// A block request may take long: when it completes, it does not count for the cgroup that has the slot now.
fn writes(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &options())?;
    let client = agent.client()?;
    let mut disk = FrozenDisk::new(context.temp.path()).map_err(Failure::Skip)?;
    let (gone, refuge) = (root.child("gone")?, root.child("refuge")?);
    let device = disk.device().display().to_string();
    let worker = Worker::start(context, Some(&gone), &["write-direct", &device, "1", "4096"])?;
    eventually(context.patiently(10), "the write does not reach the device", || {
        let under_way = disk.under_way().map_err(Failure::file(PathBuf::from("inflight")))?;
        Ok((under_way > 0).then_some(()))
    })?;

    let maps = maps(&agent)?;
    let key = maps.key(&gone, Space::Io).map_err(unexpected)?;
    let slot = known(maps.slot(key), "a slot")?;
    enter(&worker, &refuge)?;
    gone.remove_when_empty(context.patiently(5))?;
    let (_others, owner) = next_owner(context, &root, &maps, Space::Io, slot)?;

    disk.thaw().map_err(Failure::file(disk.device()))?;
    let moved: Moved = worker.report(context.patiently(30))?;
    ensure_eq!(moved.count, 1, "blocks written");
    let counted = settled(&client, &owner)?;
    ensure_eq!(count(counted.block_write.as_ref()), 0, "writes of the slot's former owner");
    Ok(())
}

fn options() -> AgentOptions {
    AgentOptions { max_cgroups: Some(CAPACITY), ..Default::default() }
}

fn maps(agent: &Agent) -> Result<SlotMaps, Failure> {
    SlotMaps::of(agent.pid()).map_err(unexpected)
}

fn unexpected(error: impl std::fmt::Display) -> Failure {
    Failure::Unexpected(error.to_string())
}

/// Moves a worker into another cgroup of every hierarchy.
fn enter(worker: &Worker, group: &Group) -> Result<(), Failure> {
    for path in group.procs_files() {
        std::fs::write(&path, worker.pid().to_string()).map_err(Failure::file(&path))?;
    }
    Ok(())
}

/// Makes cgroups until one has the slot that a removed one had. Returns all of them, and that one.
fn next_owner(
    context: &Context,
    root: &TestRoot,
    maps: &SlotMaps,
    space: Space,
    slot: u32,
) -> Result<(Vec<Group>, Group), Failure> {
    // It is given back after 1.5 s, at the next tick.
    std::thread::sleep(context.patiently(4).min(Duration::from_secs(8)));
    let mut made = Vec::new();
    for i in 0..CAPACITY {
        let group = root.child(&format!("g{i}"))?;
        let key = maps.key(&group, space).map_err(unexpected)?;
        made.push(group.clone());
        if maps.slot(key) == Some(slot) {
            return Ok((made, group));
        }
    }
    Err(Failure::Unexpected(format!("slot {slot} is not given away again")))
}
