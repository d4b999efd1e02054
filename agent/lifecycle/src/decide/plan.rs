//! What is to be done next for one pod.

mod cleaning;
mod containers;
mod decide;
mod ending;
#[cfg(test)]
mod probe_tests;
mod probed;
mod sandbox;
#[cfg(test)]
mod simulation;
mod starts;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;

use nodewarden_model::{PodPhase, Waiting};

pub use decide::{end_order, plan};
pub use sandbox::leave;

/// Why a container is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillReason {
    /// Its resources changed and its resizePolicy wants a restart.
    Resize,
    /// Its image in the pod's spec is another one now.
    Changed,
    /// Its liveness probe failed.
    Liveness,
    /// Its startup probe failed.
    Startup,
    /// Its postStart hook failed.
    PostStart,
    /// It runs though the pod no longer has it running (a sandbox that is gone, an init container out of
    /// turn).
    NotWanted,
    /// The runtime does not know its state: it is ended before another one starts.
    Unknown,
    /// The pod ends.
    PodEnds,
}

impl KillReason {
    /// The container has failed a probe.
    pub fn is_by_probe(self) -> bool {
        matches!(self, Self::Liveness | Self::Startup)
    }
}

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Everything of this sandbox is ended (with hooks and grace, by [`end_order`]), and the sandbox stopped.
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
    /// It is noted in the record before ([`Record::note_kill`](crate::record::Record::note_kill)).
    KillContainer {
        id: String,
        name: String,
        reason: KillReason,
        message: String,
    },
    /// Pull if need be, create, start, postStart. It is noted in the record before
    /// ([`Record::note_start`](crate::record::Record::note_start)).
    StartContainer {
        name: String,
        attempt: u32,
    },
    /// What an agent that died did not finish: start it if it is only created, then its postStart hook. It
    /// is in every plan until the hook is noted.
    FinishStart {
        id: String,
        name: String,
    },
    /// In-place resize of a running container.
    UpdateResources {
        id: String,
        name: String,
    },
    /// Removes an ended container that is no longer kept.
    RemoveContainer {
        id: String,
    },
}

/// What to do now, in this order, and when to look again if nothing happens. Where an action fails, those
/// after it are not done, and the plan is made again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    /// When something is due by the clock (a back-off ends).
    pub wake: Option<Timestamp>,
    /// Containers by name that wait for their back-off or for those before them.
    pub waiting: BTreeMap<String, Waiting>,
    /// Every container ended and none will start again.
    pub finished: Option<PodPhase>,
}

impl Plan {
    /// Whether the pod gets a sandbox in place of one that it had.
    pub fn replaces_sandbox(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::CreateSandbox { attempt: 1.. }))
    }
}
