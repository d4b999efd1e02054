//! What the runtime has of one pod: its sandboxes and containers.

use std::net::IpAddr;

use jiff::Timestamp;

/// Sandboxes and containers of one pod, in any order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    pub sandboxes: Vec<SandboxSeen>,
    pub containers: Vec<ContainerSeen>,
}

/// One sandbox.
#[derive(Debug, Clone, PartialEq)]
pub struct SandboxSeen {
    pub id: String,
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
    pub id: String,
    pub sandbox: String,
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
    pub image_id: String,
    /// The runtime reported all of this in this stage; false for what the agent knows from its own calls.
    pub reported: bool,
}

impl Observed {
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
