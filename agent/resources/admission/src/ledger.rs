//! The book behind a lock: a check and what is taken by it are one step, and who can go on is woken by whatever it was
//! that made it possible.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Notify, watch};

use super::book::{Book, Facts, Node, Settled, Why};
use super::explain::{Explain, decision};
use super::growth::NoGrowth;
use nodewarden_eviction::Eviction;
use nodewarden_eviction::Pressure;
use nodewarden_manifest::Pod;

/// Says how many devices of a resource pods can have, see [`Facts::devices`].
pub type Extended = Arc<dyn Fn(&str, &dyn Fn(&str) -> bool) -> Option<i64> + Send + Sync>;
/// Has the pod of this uid make way. Must not wait.
pub type Evict = Arc<dyn Fn(&str, Eviction) + Send + Sync>;

/// `status.reason` of a victim (`events.PreemptContainer`).
const PREEMPTING: &str = "Preempting";
/// `status.message` of a victim.
const MESSAGE: &str = "Preempted in order to admit critical pod";

/// What admission needs of others.
#[derive(Clone)]
pub struct Needs {
    pub node: Node,
    pub devices: Extended,
    /// Conditions of the node that are true now.
    pub pressure: watch::Receiver<Pressure>,
    pub evict: Evict,
    pub explain: Explain,
}

/// The handle; cloning shares it.
#[derive(Clone)]
pub struct Admission(Arc<Inner>);

struct Inner {
    needs: Needs,
    state: Mutex<State>,
}

/// Never held across an await.
#[derive(Default)]
struct State {
    book: Book,
    /// Of those that wait, by uid.
    bells: BTreeMap<String, Arc<Notify>>,
}

/// How a pod stands that asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Admitted,
    Waits(Why),
}

/// A pod that waits.
#[derive(Debug, Clone)]
pub struct WaitingPod {
    pub pod: Arc<Pod>,
    pub why: Why,
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").finish_non_exhaustive()
    }
}

impl Admission {
    pub fn new(needs: Needs) -> Self {
        Self(Arc::new(Inner { needs, state: Mutex::default() }))
    }

    /// The pod runs, or ran when an earlier agent ended: it is not checked.
    pub fn enter(&self, pod: &Arc<Pod>) {
        self.change(|book| book.enter(pod));
    }

    /// The pod wants to start: it holds what it asks for from now on, or waits. Whoever drops the waiter without
    /// [`Waiter::taken`] gives back both.
    pub fn ask(&self, pod: &Arc<Pod>) -> Waiter {
        let bell = Arc::new(Notify::new());
        let held = {
            let mut state = self.lock();
            state.bells.insert(pod.uid.clone(), bell.clone());
            state.book.holds(&pod.uid)
        };
        if !held {
            self.change(|book| book.ask(pod));
        }
        Waiter { admission: self.clone(), uid: pod.uid.clone(), bell, taken: held }
    }

    /// Nothing of the pod is left, or nothing of it will run any more.
    pub fn release(&self, uid: &str) {
        self.change(|book| book.release(uid));
    }

    /// The pod is being ended: critical pods count on what it holds.
    pub fn leaving(&self, uid: &str) {
        self.change(|book| book.leaving(uid));
    }

    /// The pod, which has not started, asks for these resources.
    pub fn asks(&self, pod: &Arc<Pod>) {
        self.change(|book| book.resized(pod, true));
    }

    /// The pod, if it may have these resources, is on its way to them.
    ///
    /// # Errors
    /// It runs, and there is not enough for it now or ever: nothing has changed.
    pub fn resizing(&self, pod: &Arc<Pod>) -> Result<(), NoGrowth> {
        let mut refused = None;
        self.change(|book| {
            refused = book.no_growth(pod, &self.0.needs.node);
            if refused.is_none() {
                book.resized(pod, true);
            }
        });
        refused.map_or(Ok(()), Err)
    }

    /// The pod has these resources.
    pub fn resized(&self, pod: &Arc<Pod>) {
        self.change(|book| book.resized(pod, false));
    }

    /// Its init containers have finished.
    pub fn initialised(&self, uid: &str) {
        self.change(|book| book.initialised(uid));
    }

    /// Those that wait, in the order in which they go on.
    pub fn waiting(&self) -> Vec<WaitingPod> {
        let state = self.lock();
        let waiting = state.book.waiting();
        waiting.map(|(pod, why)| WaitingPod { pod: pod.clone(), why: why.clone() }).collect()
    }

    /// How much of a resource admitted pods hold together, in its unit of [`super::amounts`].
    pub fn held(&self, resource: &str) -> i64 {
        self.lock().book.held(resource)
    }

    /// Looks again whenever devices or the node's conditions change; for as long as the agent runs.
    pub async fn follow(self, mut devices: watch::Receiver<u64>) {
        let mut pressure = self.0.needs.pressure.clone();
        let mut told = true;
        loop {
            tokio::select! {
                changed = pressure.changed(), if told => told = changed.is_ok(),
                changed = devices.changed() => if changed.is_err() { return },
            }
            self.change(|_| {});
        }
    }

    /// Changes the book, lets those go on that can, and tells the others.
    fn change(&self, change: impl FnOnce(&mut Book)) {
        let begun = Instant::now();
        let needs = &self.0.needs;
        let settled = {
            let mut state = self.lock();
            change(&mut state.book);
            let pressure = needs.pressure.borrow().clone();
            let facts = Facts { node: &needs.node, pressure: &pressure, devices: &*needs.devices };
            let settled = state.book.settle(&facts);
            state.ring(&settled);
            settled
        };
        for preempted in settled.preempted {
            for victim in &preempted.victims {
                let eviction = Eviction {
                    reason: PREEMPTING.to_owned(),
                    message: MESSAGE.to_owned(),
                    grace: None,
                    condition: None,
                };
                (needs.evict)(&victim.uid, eviction);
            }
            needs.explain.tell(decision(&preempted, begun.elapsed()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

impl State {
    fn ring(&self, settled: &Settled) {
        for uid in settled.granted.iter().chain(&settled.changed) {
            if let Some(bell) = self.bells.get(uid) {
                bell.notify_one();
            }
        }
    }
}

/// A pod's place among those that wait, or what it holds since, until somebody has taken it.
#[derive(Debug)]
pub struct Waiter {
    admission: Admission,
    uid: String,
    bell: Arc<Notify>,
    taken: bool,
}

impl Waiter {
    pub fn standing(&self) -> Standing {
        let state = self.admission.lock();
        match state.book.why(&self.uid) {
            Some(why) => Standing::Waits(why.clone()),
            None => Standing::Admitted,
        }
    }

    /// Returns when it can go on, or waits for another reason than before; dropped, nothing is lost.
    pub async fn news(&self) {
        self.bell.notified().await;
    }

    /// Has everything looked at again.
    pub fn again(&self) {
        self.admission.change(|_| {});
    }

    /// What it holds is the pod's from now on.
    pub fn taken(mut self) {
        self.taken = true;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        {
            let bells = &mut self.admission.lock().bells;
            if bells.get(&self.uid).is_some_and(|bell| Arc::ptr_eq(bell, &self.bell)) {
                bells.remove(&self.uid);
            }
        }
        if !self.taken {
            self.admission.release(&self.uid);
        }
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
