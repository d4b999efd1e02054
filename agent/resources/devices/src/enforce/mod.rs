//! Enforces the device policy of pods: by an eBPF program at the kubepods root where the unified hierarchy is
//! mounted (v2 and hybrid), else by the files of the v1 devices controller.
//!
//! On v2 the enforcement ends with the agent: while it is not running, and until a pod is guarded again, only
//! the runtime's own rules apply. The files of v1 keep what was written.

mod error;
mod filter;
#[cfg(test)]
mod tests;
mod v1;

use std::collections::BTreeSet;
use std::sync::Arc;

use nodewarden_config::Enforcement;
use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::ebpf::Kernel;
use nodewarden_model::{DenialCount, HookState, HostDeviceKind, Topic, TopicStatus};
use parking_lot::{Mutex, MutexGuard};

pub use error::EnforceError;
#[cfg(feature = "fuzzing")]
pub use v1::devices_list;
pub(crate) use v1::{Allowed, List};

use self::filter::Filter;
use self::v1::V1Controller;
use crate::policy::PodPolicy;

/// Enforces the device policies of pods. Clones share one state.
#[derive(Clone)]
pub struct Enforcer {
    backend: Arc<Mutex<Backend>>,
    state: Arc<TopicStatus>,
}

/// The mechanism that enforces.
enum Backend {
    Filter(Box<Filter>),
    V1(V1Controller),
    None,
}

impl Enforcer {
    /// Prepares enforcement for the pods below cgroup `kubepods`: attaches the eBPF program there in the
    /// unified hierarchy (the directory is created if needed). `kernel` loaded the agent's programs with
    /// `LoadOptions::devices`; `None` if they could not be loaded. Failures are shown by [`Enforcer::state`].
    pub fn start(kernel: Option<&mut Kernel>, layout: &Layout, kubepods: &str) -> Self {
        let (backend, state, reason) = match (layout.unified(), kernel, layout.devices()) {
            (Some(unified), Some(kernel), _) => match Filter::attach(kernel, unified, kubepods) {
                Ok(filter) => (Backend::Filter(Box::new(filter)), HookState::On, String::new()),
                Err(reason) => (Backend::None, HookState::Off, reason),
            },
            (Some(_), None, _) => (Backend::None, HookState::Off, "no eBPF here".to_owned()),
            (None, _, Some(devices)) => {
                let reason = "cgroup v1: devices.allow and devices.deny refuse; nothing is audited, counted or reported";
                (Backend::V1(V1Controller::new(devices)), HookState::Partial, reason.to_owned())
            }
            (None, _, None) => {
                let reason = "neither the unified hierarchy nor the v1 devices controller is mounted";
                (Backend::None, HookState::Off, reason.to_owned())
            }
        };
        let state = Arc::new(TopicStatus { topic: Topic::Device, state, reason });
        Self { backend: Arc::new(Mutex::new(backend)), state }
    }

    /// The same beside a kubelet: files of the v1 controller, which the runtime writes, are left alone. The
    /// directory of `kubepods` has to be there.
    pub fn start_beside(kernel: Option<&mut Kernel>, layout: &Layout, kubepods: &str) -> Self {
        if layout.unified().is_some() {
            return Self::start(kernel, layout, kubepods);
        }
        let reason =
            "the unified hierarchy is not mounted, and files of the v1 devices controller are the runtime's";
        let state = TopicStatus { topic: Topic::Device, state: HookState::Off, reason: reason.to_owned() };
        Self { backend: Arc::new(Mutex::new(Backend::None)), state: Arc::new(state) }
    }

    /// Enforces a policy on a pod from now on; `cgroup` is the path of the pod's own cgroup. A later call
    /// replaces the policy. Best called before the pod has containers: v1 requires that.
    ///
    /// # Errors
    /// The policy is not enforced; the policy before it stays in force.
    pub(crate) fn guard(&self, uid: &str, cgroup: &str, policy: PodPolicy) -> Result<(), EnforceError> {
        match &mut *self.backend() {
            Backend::Filter(filter) => filter.guard(uid, cgroup, &policy),
            Backend::V1(controller) => controller.guard(uid, cgroup, &policy),
            Backend::None if policy.mode == Enforcement::Off => Ok(()),
            Backend::None => Err(EnforceError::Unavailable { reason: self.state.reason.clone() }),
        }
    }

    /// Replaces the devices that are watched of pods whose policy has [`crate::policy::Scope::Watched`].
    /// Files of v1 have no such policy.
    ///
    /// # Errors
    /// The table is full or the kernel refuses.
    pub(crate) fn watch(&self, devices: &BTreeSet<(HostDeviceKind, u32, u32)>) -> Result<(), EnforceError> {
        match &mut *self.backend() {
            Backend::Filter(filter) => filter.watch(devices),
            Backend::V1(_) | Backend::None => {
                Err(EnforceError::Unavailable { reason: self.state.reason.clone() })
            }
        }
    }

    /// Removes a pod that no longer exists.
    pub(crate) fn forget(&self, uid: &str) {
        match &mut *self.backend() {
            Backend::Filter(filter) => {
                if let Err(error) = filter.release(uid) {
                    tracing::warn!(uid, %error, "the device rules of a removed pod stay in the eBPF tables");
                }
            }
            Backend::V1(controller) => controller.forget(uid),
            Backend::None => {}
        }
    }

    /// Whether enforcement works, and the reason if not.
    pub fn state(&self) -> TopicStatus {
        (*self.state).clone()
    }

    /// Counts of accesses that no rule allowed, by uid and device of guarded pods, whose names are left
    /// empty. Always empty on v1.
    pub fn denials(&self) -> Vec<DenialCount> {
        match &*self.backend() {
            Backend::Filter(filter) => filter.denials(),
            Backend::V1(_) | Backend::None => Vec::new(),
        }
    }

    fn backend(&self) -> MutexGuard<'_, Backend> {
        self.backend.lock()
    }
}
