//! The queue behind a lock: checking and reserving are one step, and every change wakes the pods that can
//! start after it.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Notify, watch};

use super::amounts::Amounts;
use super::explain::{Explain, decision};
use super::growth::NoGrowth;
use super::queue::{AdmissionQueue, Facts, Node, Settled, Why};
use super::toleration::NoExecuteTaint;
use nodewarden_eviction::Pressure;
use nodewarden_eviction::{Eviction, EvictionReason};
use nodewarden_manifest::Pod;

/// Returns how many devices of a resource pods can have, see [`Facts::devices`].
pub type Extended = Arc<dyn Fn(&str, &dyn Fn(&str) -> bool) -> Option<i64> + Send + Sync>;
/// Evicts the pod with this uid. Must not block.
pub type Evict = Arc<dyn Fn(&str, Eviction) + Send + Sync>;

/// `status.message` of a victim.
const MESSAGE: &str = "Preempted in order to admit critical pod";

/// Dependencies of admission.
#[derive(Clone)]
pub struct Deps {
    /// The node as it is now; its capacity is changed by [`Admission::set_capacity`].
    pub node: Node,
    /// Counts devices.
    pub devices: Extended,
    /// The node conditions that are true.
    pub pressure: watch::Receiver<Pressure>,
    /// Evicts a victim of preemption.
    pub evict: Evict,
    /// Receives the decisions.
    pub explain: Explain,
}

/// Handle to admission; clones share it.
#[derive(Clone)]
pub struct Admission(Arc<Inner>);

struct Inner {
    deps: Deps,
    state: Mutex<State>,
}

/// Never held across an await.
struct State {
    queue: AdmissionQueue,
    node: Node,
    /// Notifiers of waiting pods, by uid.
    notifiers: BTreeMap<String, Arc<Notify>>,
}

/// State of a pod that requested admission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmissionState {
    /// It may start.
    Admitted,
    /// It waits, and why.
    Waits(Why),
}

/// A waiting pod.
#[derive(Debug, Clone)]
pub struct WaitingPod {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Why it waits.
    pub why: Why,
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}

impl Admission {
    /// Admission without any pod.
    pub fn new(deps: Deps) -> Self {
        let state =
            State { queue: AdmissionQueue::default(), node: deps.node.clone(), notifiers: BTreeMap::new() };
        Self(Arc::new(Inner { deps, state: Mutex::new(state) }))
    }

    /// What pods can have together has changed (CPUs, memory or huge pages of the machine): waiting pods that
    /// fit now are admitted. Pods that run keep what they have, also where that is more than there is now.
    pub fn set_capacity(&self, capacity: Amounts) {
        self.change_with(|_, node| node.capacity = capacity);
    }

    /// The node has these labels and taints at the API server.
    pub fn set_node(&self, labels: BTreeMap<String, String>, taints: Vec<NoExecuteTaint>) {
        self.change_with(|_, node| {
            node.labels = labels;
            node.labels_expected = false;
            node.taints = taints;
        });
    }

    /// Whether the machine is about to shut down: no pod starts then.
    pub fn set_shutting_down(&self, is: bool) {
        self.change_with(|_, node| node.shutting_down = is);
    }

    /// Adds a pod that runs, or ran when an earlier agent ended: it is not checked.
    pub fn enter(&self, pod: &Arc<Pod>) {
        self.change(|queue| queue.enter(pod));
    }

    /// Requests admission: the pod holds its requests from now on, or waits. Dropping the waiter without
    /// [`Waiter::taken`] releases them, or gives up waiting.
    pub fn ask(&self, pod: &Arc<Pod>) -> Waiter {
        let notifier = Arc::new(Notify::new());
        let held = {
            let mut state = self.lock();
            state.notifiers.insert(pod.uid.clone(), notifier.clone());
            state.queue.holds(&pod.uid)
        };
        if !held {
            self.change(|queue| queue.ask(pod));
        }
        Waiter { admission: self.clone(), uid: pod.uid.clone(), notifier, taken: held }
    }

    /// Releases what the pod holds: it has ended, or will not start.
    pub fn release(&self, uid: &str) {
        self.change(|queue| queue.release(uid));
    }

    /// Marks the pod as terminating: what it holds counts as soon free for critical pods.
    pub fn leaving(&self, uid: &str) {
        self.change(|queue| queue.leaving(uid));
    }

    /// Changes the requests of a pod that has not started.
    pub fn asks(&self, pod: &Arc<Pod>) {
        self.change(|queue| queue.resized(pod, true));
    }

    /// Reserves the resources for an in-place resize.
    ///
    /// # Errors
    /// The pod runs, and there is not enough for it now or ever: nothing has changed.
    pub fn resizing(&self, pod: &Arc<Pod>) -> Result<(), NoGrowth> {
        let mut refused = None;
        self.change_with(|queue, node| {
            refused = queue.no_growth(pod, node);
            if refused.is_none() {
                queue.resized(pod, true);
            }
        });
        refused.map_or(Ok(()), Err)
    }

    /// The pod has other labels, tolerations or annotations; what it holds is as before.
    pub fn updated(&self, pod: &Arc<Pod>) {
        self.lock().queue.updated(pod);
    }

    /// Ends an in-place resize: the pod has these resources.
    pub fn resized(&self, pod: &Arc<Pod>) {
        self.change(|queue| queue.resized(pod, false));
    }

    /// The pod's init containers have finished: their devices are released.
    pub fn initialised(&self, uid: &str) {
        self.change(|queue| queue.initialised(uid));
    }

    /// The waiting pods, in the order in which they may start.
    pub fn waiting(&self) -> Vec<WaitingPod> {
        let state = self.lock();
        let waiting = state.queue.waiting();
        waiting.map(|(pod, why)| WaitingPod { pod: pod.clone(), why: why.clone() }).collect()
    }

    /// How much of a resource admitted pods hold together: CPU in thousandths, everything else in whole
    /// units.
    pub fn held(&self, resource: &str) -> i64 {
        self.lock().queue.held(resource)
    }

    /// Checks the waiting pods whenever devices or node conditions change; ends when the sender of `devices`
    /// is dropped.
    pub async fn follow(self, mut devices: watch::Receiver<u64>) {
        let mut pressure = self.0.deps.pressure.clone();
        let mut watched = true;
        loop {
            tokio::select! {
                changed = pressure.changed(), if watched => watched = changed.is_ok(),
                changed = devices.changed() => if changed.is_err() { return },
            }
            self.change(|_| {});
        }
    }

    /// Changes the queue, admits the pods that fit now, and notifies those whose reason changed.
    fn change(&self, change: impl FnOnce(&mut AdmissionQueue)) {
        self.change_with(|queue, _| change(queue));
    }

    /// As [`Self::change`], with the node.
    fn change_with(&self, change: impl FnOnce(&mut AdmissionQueue, &mut Node)) {
        let begun = Instant::now();
        let deps = &self.0.deps;
        let settled = {
            let mut guard = self.lock();
            let state = &mut *guard;
            change(&mut state.queue, &mut state.node);
            let pressure = deps.pressure.borrow().clone();
            let facts = Facts { node: &state.node, pressure: &pressure, devices: &*deps.devices };
            let settled = state.queue.settle(&facts);
            state.notify(&settled);
            settled
        };
        for preempted in settled.preempted {
            for victim in &preempted.victims {
                let eviction = Eviction {
                    reason: EvictionReason::Preempting,
                    message: MESSAGE.to_owned(),
                    grace: None,
                    killed: false,
                    condition: None,
                };
                (deps.evict)(&victim.uid, eviction);
            }
            deps.explain.record(decision(&preempted, begun.elapsed()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

impl State {
    fn notify(&self, settled: &Settled) {
        for uid in settled.granted.iter().chain(&settled.changed) {
            if let Some(notifier) = self.notifiers.get(uid) {
                notifier.notify_one();
            }
        }
    }
}

/// A pod's admission request: its place in the queue, or what it holds since it was admitted.
#[derive(Debug)]
pub struct Waiter {
    admission: Admission,
    uid: String,
    notifier: Arc<Notify>,
    taken: bool,
}

impl Waiter {
    /// Whether the pod is admitted, or why it waits.
    pub fn state(&self) -> AdmissionState {
        let state = self.admission.lock();
        match state.queue.why(&self.uid) {
            Some(why) => AdmissionState::Waits(why.clone()),
            None => AdmissionState::Admitted,
        }
    }

    /// Returns when the state has changed. Cancel safe.
    pub async fn news(&self) {
        self.notifier.notified().await;
    }

    /// Checks all waiting pods again.
    pub fn again(&self) {
        self.admission.change(|_| {});
    }

    /// Keeps what the pod holds when the waiter is dropped, until [`Admission::release`].
    pub fn taken(mut self) {
        self.taken = true;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        {
            let notifiers = &mut self.admission.lock().notifiers;
            if notifiers.get(&self.uid).is_some_and(|notifier| Arc::ptr_eq(notifier, &self.notifier)) {
                notifiers.remove(&self.uid);
            }
        }
        if !self.taken {
            self.admission.release(&self.uid);
        }
    }
}

#[cfg(test)]
mod tests;
