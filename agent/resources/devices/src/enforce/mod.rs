//! Holds pods to their devices: by an eBPF program at the kubepods root where there is the unified hierarchy (v2 and
//! hybrid), by the files of the v1 devices controller where there is none.
//!
//! Nothing outlives the agent on v2: while it is away, and before a pod is guarded again, the runtime's own rules stand
//! alone. The files of v1 stay as they were written.

mod error;
mod files;
mod filter;
#[cfg(test)]
mod kernel_tests;
mod list;
mod look;

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

pub use error::EnforceError;
pub use look::{expand, look, path_of};

use self::files::Files;
use self::filter::Filter;
use super::policy::PodPolicy;
use nodewarden_config::Enforcement;
use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::ebpf::Kernel;
use nodewarden_model::{DenialCount, HookState, Topic, TopicStatus};

/// See the module. Clones share it.
#[derive(Clone)]
pub struct Enforcer {
    means: Arc<Mutex<Means>>,
    state: Arc<TopicStatus>,
}

/// What enforces.
enum Means {
    Filter(Box<Filter>),
    Files(Files),
    Nothing,
}

impl Enforcer {
    /// Prepares enforcement for the pods below cgroup `kubepods`: attaches the program there, in the unified hierarchy
    /// (the directory is made if need be). `kernel` is what the agent's programs were loaded by, with
    /// `LoadOptions::devices`; `None` if they could not be. What cannot work is told by [`Enforcer::state`].
    pub fn start(kernel: Option<&mut Kernel>, layout: &Layout, kubepods: &str) -> Self {
        let (means, state, reason) = match (layout.unified(), kernel, layout.devices()) {
            (Some(unified), Some(kernel), _) => match Filter::attach(kernel, unified, kubepods) {
                Ok(filter) => (Means::Filter(Box::new(filter)), HookState::On, String::new()),
                Err(reason) => (Means::Nothing, HookState::Off, reason),
            },
            (Some(_), None, _) => (Means::Nothing, HookState::Off, "no eBPF here".to_owned()),
            (None, _, Some(devices)) => {
                let reason =
                    "cgroup v1: devices.allow and devices.deny refuse; nothing is audited, counted or told";
                (Means::Files(Files::new(devices)), HookState::Partial, reason.to_owned())
            }
            (None, _, None) => {
                let reason = "neither the unified hierarchy nor the v1 devices controller is mounted";
                (Means::Nothing, HookState::Off, reason.to_owned())
            }
        };
        let state = Arc::new(TopicStatus { topic: Topic::Device, state, reason });
        Self { means: Arc::new(Mutex::new(means)), state }
    }

    /// Holds a pod to a policy from now on, `cgroup` being the path of its own cgroup; again with another one replaces
    /// it. Best before it has containers: on v1 it must be.
    ///
    /// # Errors
    /// It is not held to it; what held before holds on.
    pub fn guard(&self, uid: &str, cgroup: &str, policy: PodPolicy) -> Result<(), EnforceError> {
        match &mut *self.means() {
            Means::Filter(filter) => filter.guard(uid, cgroup, &policy),
            Means::Files(files) => files.guard(uid, cgroup, &policy),
            Means::Nothing if policy.mode == Enforcement::Off => Ok(()),
            Means::Nothing => Err(EnforceError::Unavailable { reason: self.state.reason.clone() }),
        }
    }

    /// The pod is gone.
    pub fn forget(&self, uid: &str) {
        match &mut *self.means() {
            Means::Filter(filter) => {
                if let Err(error) = filter.release(uid) {
                    tracing::warn!(uid, %error, "the devices of a pod that is gone stay in the eBPF tables");
                }
            }
            Means::Files(files) => files.forget(uid),
            Means::Nothing => {}
        }
    }

    /// Whether it works, and why not.
    pub fn state(&self) -> TopicStatus {
        (*self.state).clone()
    }

    /// Accesses that no rule allowed, of the pods that are guarded: by uid and device. None on v1.
    pub fn denials(&self) -> Vec<DenialCount> {
        match &*self.means() {
            Means::Filter(filter) => filter.denials(),
            Means::Files(_) | Means::Nothing => Vec::new(),
        }
    }

    fn means(&self) -> MutexGuard<'_, Means> {
        // A panic while the lock was held leaves tables as they are known: go on.
        self.means.lock()
    }
}
