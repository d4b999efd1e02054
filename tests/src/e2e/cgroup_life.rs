//! The events of a cgroup's lifecycle.

use std::time::Duration;

use nodewarden_proto::nodewarden::v1::event::Detail;

use super::support::SOON;
use crate::fixture::{Agent, AgentOptions, TestRoot, Worker};
use crate::harness::{Capability, Context, Failure, Test};
use crate::{ensure, ensure_eq};

const NEEDS: &[Capability] = &[Capability::Root, Capability::Btf, Capability::Loopback];

pub const TESTS: &[Test] = &[Test::new("cgroup_lifecycle_events", lifecycle).needs(NEEDS)];

const TYPES: [&str; 5] = ["cgroupCreated", "cgroupPopulated", "taskMoved", "cgroupEmptied", "cgroupRemoved"];

/// Each step of a cgroup's lifecycle is reported once and in order, and its times are in the cgroup list.
fn lifecycle(context: &Context) -> Result<(), Failure> {
    let root = TestRoot::new(context)?;
    let agent = Agent::start(context, &AgentOptions::default())?;
    let client = agent.client()?;
    let events = client.watch_types(&TYPES)?;

    let group = root.child("life")?;
    let worker = Worker::start(context, Some(&group), &["sleep"])?;
    let pid = worker.pid();
    worker.finish(context.patiently(5))?;
    group.remove_when_empty(context.patiently(5))?;

    let seen = events.expect(TYPES.len(), SOON * context.patience, |event| event.cgroup == group.path())?;
    let types: Vec<&str> = seen.iter().map(|received| received.event.r#type.as_str()).collect();
    ensure_eq!(types, TYPES, "events of the cgroup");
    for pair in seen.windows(2) {
        ensure!(pair[0].event.seq < pair[1].event.seq, "the sequence numbers do not grow");
        let (earlier, later) = (pair[0].time()?, pair[1].time()?);
        ensure!(earlier <= later + Duration::from_millis(1), "the times go backwards");
    }
    let moved = seen.iter().find_map(|received| match &received.event.detail {
        Some(Detail::TaskMoved(moved)) => Some(moved.pid),
        _ => None,
    });
    ensure_eq!(moved, Some(pid), "pid of the moved task");

    let listed = client.cgroup(group.path())?;
    ensure!(listed.created.is_some(), "the cgroup list has no creation time");
    ensure!(listed.removed.is_some(), "the cgroup list has no removal time");
    Ok(())
}
