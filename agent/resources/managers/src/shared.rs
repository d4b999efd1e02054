//! The managers behind one handle: a lock around the decisions, the state files, and who has to be moved to
//! other CPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use nodewarden_config::ResourceManagerSettings;
use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_manifest::Pod;
use nodewarden_storage::write_behind::WriteBehind;
use nodewarden_topology::Machine;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::ManagerError;
use crate::map::CpuMap;
use crate::node::Managers;
use crate::running::{CpusetUpdate, RunningContainers};
use crate::settings::Reservation;
use crate::state_files::StateFiles;

/// Something that the journal should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagerEvent {
    /// Reason of the event, in CamelCase.
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
}

/// Receives events; must not block.
pub type EventSink = Arc<dyn Fn(ManagerEvent) + Send + Sync>;

/// The handle of the managers. Clones share one state.
#[derive(Clone)]
pub struct ResourceManagers(pub(crate) Arc<Inner>);

impl fmt::Debug for ResourceManagers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceManagers").finish_non_exhaustive()
    }
}

pub(crate) struct Inner {
    state: Mutex<State>,
    /// Writes the state files as the state is at the time of writing.
    pub(crate) saver: WriteBehind<()>,
    events: EventSink,
    changed: watch::Sender<u64>,
}

/// What the lock protects; it is never held across an await.
pub(crate) struct State {
    pub managers: Managers,
    pub running: RunningContainers,
    /// Uids of pods of the state files that were not claimed yet.
    stale: BTreeSet<String>,
    /// Those of them that did not exist at the last call of [`ResourceManagers::free_stale`].
    suspects: BTreeSet<String>,
    /// A state file was damaged: pods of an earlier agent that have not reported yet on which CPUs they are.
    pub unreported: Option<BTreeSet<String>>,
}

/// Where a container runs, as its configuration says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// Its CPUs; `None`: all.
    pub cpus: Option<CpuSet>,
    /// The NUMA nodes of its memory, as a list; `None`: all.
    pub memory_nodes: Option<String>,
    /// Whether the CPUs are its own.
    pub exclusive: bool,
}

impl ResourceManagers {
    /// Loads what an earlier agent or a kubelet has saved in the kubelet's directory. `pods`: uids of the
    /// pods that an earlier agent ran. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// A setting cannot be held on this machine.
    pub fn start(
        keys: &ResourceManagerSettings,
        reserved: Reservation,
        machine: Machine,
        directory: &Path,
        pods: BTreeSet<String>,
        events: EventSink,
    ) -> Result<Self, ManagerError> {
        let files = StateFiles::new(directory);
        let (saved, damaged) = files.load();
        let (managers, findings) = Managers::new(keys.clone(), reserved, machine, &saved)?;
        let report = |reason, messages: &[String]| {
            messages.iter().cloned().for_each(|message| events(ManagerEvent { reason, message }));
        };
        report("ResourceStateDamaged", &damaged);
        report("ResourceStateChanged", &findings);
        let is_used = managers.is_active() || !findings.is_empty() || saved.cpus.is_some();
        let state = State {
            stale: managers.pods(),
            suspects: BTreeSet::new(),
            unreported: (!damaged.is_empty() && !pods.is_empty()).then_some(pods),
            running: RunningContainers::default(),
            managers,
        };
        let handle = Self(Arc::new_cyclic(|inner: &std::sync::Weak<Inner>| {
            let own = inner.clone();
            let saver = WriteBehind::on_blocking_thread(
                "no pod gets CPUs of its own until it can be written",
                move |()| {
                    let Some(inner) = own.upgrade() else { return Ok(()) };
                    let state = inner.state.lock();
                    // What is not known yet must not be written as free.
                    if state.unreported.is_some() {
                        return Ok(());
                    }
                    let ((cpus, memory), pod_level) = (state.managers.saved(), state.managers.pod_level());
                    drop(state);
                    files.save(&cpus, &memory, pod_level)
                },
            );
            Inner { state: Mutex::new(state), saver, events, changed: watch::Sender::new(0) }
        }));
        if is_used {
            handle.0.saver.save(());
        }
        Ok(handle)
    }

    /// Whether a policy is set; without one nothing here does anything.
    pub fn is_active(&self) -> bool {
        self.0.lock().managers.is_active()
    }

    /// A counter that grows with every change of what containers have or should have.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Where a container runs.
    pub fn placement(&self, uid: &str, container: &str) -> Placement {
        let state = self.0.lock();
        let managers = &state.managers;
        let nodes = managers.memory.nodes_of(uid, container);
        Placement {
            cpus: managers.cpus_of(uid, container),
            memory_nodes: nodes.map(|nodes| nodes.to_string()),
            exclusive: managers.cpus.assignments().get(uid, container).is_some(),
        }
    }

    /// Gives a pod that ran already what it should have by the present policies and does not have. `found`:
    /// the CPUs on which its running containers are, where the runtime knows; they are kept if they can be.
    /// Returns what it cannot have, as text for people.
    pub fn adopt(&self, pod: &Pod, found: &BTreeMap<String, CpuSet>) -> Vec<String> {
        let missing = {
            let mut state = self.0.lock();
            if !state.managers.is_active() {
                return Vec::new();
            }
            state.stale.remove(&pod.uid);
            for container in pod.init_containers.iter().chain(&pod.containers) {
                if let Some(cpus) = found.get(&container.name) {
                    state.managers.cpus.recover(pod, container, cpus);
                }
            }
            if let Some(unreported) = &mut state.unreported {
                unreported.remove(&pod.uid);
            }
            state.unreported.take_if(|unreported| unreported.is_empty());
            state.managers.adopt(pod)
        };
        self.0.save_and_notify();
        missing
    }

    /// Whether it is not known yet which CPUs this pod of an earlier agent is on, because the state file was
    /// damaged: [`Self::adopt`] has to be called with what the runtime says.
    pub fn is_unreported(&self, uid: &str) -> bool {
        self.0.lock().unreported.as_ref().is_some_and(|pods| pods.contains(uid))
    }

    /// Takes back what a pod has, and forgets its containers.
    pub fn release(&self, uid: &str) {
        let had = {
            let mut state = self.0.lock();
            state.running.forget(uid);
            let reported = state.unreported.as_mut().is_some_and(|pods| pods.remove(uid));
            state.unreported.take_if(|unreported| unreported.is_empty());
            state.managers.release(uid) || reported
        };
        if had {
            self.0.save_and_notify();
        }
    }

    /// Marks a pod of the state files as existing, so that what it has is not freed.
    pub fn claim(&self, uid: &str) {
        self.0.lock().stale.remove(uid);
    }

    /// Whether the state files have pods that were not claimed.
    pub fn has_stale(&self) -> bool {
        !self.0.lock().stale.is_empty()
    }

    /// Frees what unclaimed pods have for which `gone` returns true in two calls in a row: a manifest may
    /// still appear between the two.
    pub fn free_stale(&self, gone: impl Fn(&str) -> bool) {
        let freed: Vec<String> = {
            let mut state = self.0.lock();
            let found: BTreeSet<String> = state.stale.iter().filter(|uid| gone(uid)).cloned().collect();
            let freed: Vec<String> = found.intersection(&state.suspects).cloned().collect();
            state.suspects = found;
            for uid in &freed {
                state.stale.remove(uid);
                state.managers.release(uid);
            }
            freed
        };
        if !freed.is_empty() {
            let message =
                format!("CPUs and memory of pods that no longer exist are free again: {}", freed.join(", "));
            (self.0.events)(ManagerEvent { reason: "ResourcesFreed", message });
            self.0.save_and_notify();
        }
    }

    /// Takes over the machine's CPUs and NUMA nodes when they have changed: containers keep what is still
    /// there.
    pub fn set_machine(&self, machine: Machine) {
        let (changed, events) = {
            let mut state = self.0.lock();
            if *state.managers.machine() == machine {
                return;
            }
            match state.managers.moved_to(machine) {
                Ok((managers, findings)) => {
                    state.managers = managers;
                    (true, findings)
                }
                Err(error) => {
                    (false, vec![format!("the machine has changed, and CPUs stay as they were: {error}")])
                }
            }
        };
        for message in events {
            (self.0.events)(ManagerEvent { reason: "ResourceStateChanged", message });
        }
        if changed {
            self.0.save_and_notify();
        }
    }

    /// Takes over which containers of a pod run: name and id.
    pub fn saw<'a>(&self, uid: &str, running: impl Iterator<Item = (&'a str, &'a str)>) {
        let changed = {
            let mut state = self.0.lock();
            state.managers.is_active() && state.running.saw(uid, running)
        };
        // Those that were waited for may have ended; those that are new may be on wrong CPUs.
        if changed {
            self.0.changed.send_modify(|number| *number += 1);
        }
    }

    /// A container was created, or moved to these CPUs.
    pub fn is_on(&self, uid: &str, container: &str, id: &str, cpus: CpuSet) {
        self.0.lock().running.is_on(uid, container, id, cpus);
        self.0.changed.send_modify(|number| *number += 1);
    }

    /// A container that should have been moved is not there any more.
    pub fn ended(&self, update: &CpusetUpdate) {
        self.0.lock().running.ended(&update.uid, &update.container, &update.id);
        self.0.changed.send_modify(|number| *number += 1);
    }

    /// The running containers that should be on other CPUs than they are.
    pub fn due(&self) -> Vec<CpusetUpdate> {
        self.0.lock().due()
    }

    /// Waits until no container of another pod is on the CPUs that this one has for itself, for at most
    /// `longest`; false if that was too short.
    pub async fn cleared(&self, uid: &str, container: &str, longest: std::time::Duration) -> bool {
        let mut changes = self.changes();
        let clear = async {
            loop {
                changes.mark_unchanged();
                let is_clear = {
                    let state = self.0.lock();
                    let own = state.managers.cpus.assignments().get(uid, container);
                    own.is_none_or(|cpus| !state.running.is_taken(uid, cpus))
                };
                if is_clear {
                    return;
                }
                // An error only when the agent ends.
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(longest, clear).await.is_ok()
    }

    /// Why a running pod cannot get other CPUs or memory in place; `None` if it can (kubelet
    /// `allocation.Manager.isResizeInfeasible` of 1.36).
    pub fn refuses_resize(&self, pod: &Pod) -> Option<&'static str> {
        if pod.qos != nodewarden_manifest::QosClass::Guaranteed {
            return None;
        }
        let state = self.0.lock();
        if state.managers.cpus.settings().policy == nodewarden_cpus::Policy::Static {
            return Some("Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy");
        }
        (state.managers.memory.settings().policy == nodewarden_memory_blocks::Policy::Static)
            .then_some("Resize is infeasible for Guaranteed Pods alongside Memory Manager static policy")
    }

    /// What `nodewarden cpus` shows.
    pub fn map(&self) -> CpuMap {
        CpuMap::of(&self.0.lock().managers)
    }
}

impl State {
    fn due(&self) -> Vec<CpusetUpdate> {
        self.running.due(|uid, container| self.managers.cpus_of(uid, container))
    }
}

impl Inner {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Saves a change in the background, and wakes those that follow changes.
    pub(crate) fn save_and_notify(&self) {
        self.saver.save(());
        self.changed.send_modify(|number| *number += 1);
    }

    /// Wakes those that follow changes; the caller waits until it is saved.
    pub(crate) fn mark_and_notify(&self) {
        self.saver.save_when_settled(());
        self.changed.send_modify(|number| *number += 1);
    }
}
