//! What is to be done next for one pod.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::view::PodPhase;

/// Why a container is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// Its resources changed and its resizePolicy wants a restart.
    Resize,
    /// Its postStart hook failed.
    PostStart,
    /// It runs though the pod no longer has it running (a sandbox that is gone, an init container out of turn).
    NotWanted,
    /// The runtime does not know its state: it is ended before another one starts.
    Unknown,
    /// The pod ends.
    PodEnds,
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Everything of this sandbox is ended (with hooks and grace), and the sandbox stopped.
    StopSandbox {
        id: String,
    },
    /// A stopped sandbox and its containers are forgotten.
    RemoveSandbox {
        id: String,
    },
    CreateSandbox {
        attempt: u32,
    },
    KillContainer {
        id: String,
        name: String,
        reason: KillReason,
        message: String,
    },
    /// Pull if need be, create, start, postStart.
    StartContainer {
        name: String,
        attempt: u32,
    },
    /// A container was created and not started by an agent that died: started now.
    FinishStart {
        id: String,
        name: String,
    },
    /// In-place resize of a running container.
    UpdateResources {
        id: String,
        name: String,
    },
    /// An ended one that nobody needs any more.
    RemoveContainer {
        id: String,
    },
}

/// What to do now, in this order, and when to look again if nothing happens.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    /// When something is due by the clock (a back-off ends).
    pub wake: Option<Timestamp>,
    /// Containers that wait: reason (`CrashLoopBackOff`, `PodInitializing`) and message.
    pub waiting: BTreeMap<String, (String, String)>,
    /// Every container ended and none will start again.
    pub finished: Option<PodPhase>,
}
