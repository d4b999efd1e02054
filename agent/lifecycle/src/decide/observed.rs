//! What the runtime has of one pod: its sandboxes and containers.

use std::net::IpAddr;

use jiff::Timestamp;

use crate::id::Id;
use crate::record::Record;

/// Sandboxes and containers of one pod, in any order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    pub sandboxes: Vec<SandboxSeen>,
    pub containers: Vec<ContainerSeen>,
}

/// One sandbox.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxSeen {
    pub id: Id,
    pub attempt: u32,
    pub ready: bool,
    pub created: Timestamp,
    /// Empty on the node's own network.
    pub ips: Vec<IpAddr>,
}

/// The state of a container as the runtime reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerStage {
    Created,
    Running,
    Exited,
    /// The runtime does not know.
    Unknown,
}

/// One container.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerSeen {
    /// Shared with the pod's record.
    pub id: Id,
    /// The id of its sandbox, shared with that.
    pub sandbox: Id,
    pub name: String,
    /// How many of this name were there before it: the restart count.
    pub attempt: u32,
    pub stage: ContainerStage,
    pub created: Timestamp,
    pub started: Option<Timestamp>,
    pub finished: Option<Timestamp>,
    /// 128 and the signal's number when a signal ended it.
    pub exit_code: i32,
    /// `Completed`, `Error`, `OOMKilled`, ….
    pub reason: String,
    pub message: String,
    /// As the runtime names it.
    pub image_id: Box<str>,
    /// The runtime reported all of this in this stage; false for what the agent knows from its own calls.
    pub reported: bool,
}

impl Observed {
    /// Has each id in memory once: those that stand in the pod's record too, and those of the sandboxes.
    pub fn share(&mut self, record: &Record) {
        let Self { sandboxes, containers } = self;
        for seen in containers {
            if let Some(own) = record.container(&seen.name).filter(|own| own.hooked == seen.id) {
                seen.id = own.hooked.clone();
            }
            if let Some(sandbox) = sandboxes.iter().find(|sandbox| sandbox.id == seen.sandbox) {
                seen.sandbox = sandbox.id.clone();
            }
        }
    }

    /// The newest container of a name.
    pub fn newest(&self, name: &str) -> Option<&ContainerSeen> {
        self.containers.iter().filter(|c| c.name == name).max_by_key(|c| (c.attempt, c.created))
    }

    /// The newest sandbox, ready or not.
    pub fn newest_sandbox(&self) -> Option<&SandboxSeen> {
        self.sandboxes.iter().max_by_key(|s| (s.attempt, s.created))
    }

    /// The sandbox that the pod's containers run in: the newest, if it is ready.
    pub fn sandbox(&self) -> Option<&SandboxSeen> {
        self.newest_sandbox().filter(|s| s.ready)
    }

    /// Containers of a name that ended.
    pub fn ended<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a ContainerSeen> {
        self.containers.iter().filter(move |c| c.name == name && c.stage == ContainerStage::Exited)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{container, pod, record, sandbox};

    #[test]
    fn each_id_is_there_once() {
        let pod = pod(json!({"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}));
        let mut record = record(&pod);
        record.containers.get_or_default("c").hooked = "c.0".into();
        record.containers.get_or_default("d").hooked = "d.0".into();
        let containers = [("c", 0), ("d", 1)].map(|(name, n)| container(name, n, ContainerStage::Running));
        let mut observed = Observed { sandboxes: vec![sandbox(0, true)], containers: containers.into() };
        let before = observed.clone();
        observed.share(&record);
        assert_eq!(observed, before);
        let Observed { sandboxes, containers } = &observed;
        let same = |one: &Id, other: &Id| std::ptr::eq(one.as_str(), other.as_str());
        assert!(containers.iter().all(|seen| same(&seen.sandbox, &sandboxes[0].id)));
        assert!(same(&containers[0].id, &record.containers["c"].hooked));
        assert_eq!(containers[1].id, "d.1", "a later one than that of the record");
        assert!(size_of::<ContainerSeen>() <= 200, "{}", size_of::<ContainerSeen>());
    }
}
