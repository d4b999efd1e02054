//! The state of one pod. It has one owner, [`PodState`], which the worker, the turn under way and the sinks
//! of its probes share: they read views of it and change it by the methods here.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};

use crate::decide::deadline;
use crate::decide::observed::Observed;
use crate::decide::phase;
use crate::decide::phase::Trouble;
use crate::decide::plan::Plan;
use crate::decide::published::{NOTHING, Published};
use crate::environment::Environment;
use crate::orders::{Order, WeakOrders};
use crate::record::Record;
use crate::record::saver::{RecordSaver, saver};
use crate::removals::Removals;
use nodewarden_devices::{DeviceHealth, PodDemand};
use nodewarden_eviction::Eviction;
use nodewarden_machine::clock::read_clocks;
use nodewarden_manifest::Pod;
use nodewarden_model::{ApiState, OomVictim, PodView, ResizePending, Waiting};
use nodewarden_pods::probes::Watched;
use nodewarden_pods::source::Over;
use nodewarden_tasks::{blocking, parts};
use tracing::warn;

/// Moments that are computed from the same times differ by less than this.
const SAME: Duration = Duration::from_millis(100);

/// One pod's state, behind a lock. A status is published and a record saved with each change that needs it.
#[derive(Debug)]
pub struct PodState {
    pub env: Arc<Environment>,
    own: Weak<Self>,
    /// To its own worker.
    orders: WeakOrders,
    inner: Mutex<Inner>,
    saver: RecordSaver,
    /// Notified when the pod is to end, or sooner than before: everything that waits stops waiting.
    ending: Notify,
    /// Who waits for the removal of a container's cgroup.
    pub removals: Removals,
    /// Held until the runtime was asked about an adopted pod for the first time.
    unseen: Mutex<Option<mpsc::Sender<Infallible>>>,
}

/// What is known of one pod. [`PodState`] owns it: everything else reads a view of it, and changes it by one
/// of the methods of `PodState`, which also save and show what has changed.
#[derive(Debug)]
pub struct Inner {
    pub pod: Arc<Pod>,
    pub record: Record,
    pub observed: Observed,
    /// Containers that could not be started, by name.
    pub failed: BTreeMap<String, Failed>,
    /// As decided last.
    pub plan: Plan,
    /// What keeps the pod as a whole from running. Boxed, since most pods run.
    pub trouble: Option<Box<Trouble>>,
    /// Sandboxes that could not be made, in a row.
    pub sandbox_failures: u32,
    /// It was reported that the sandbox changed, and there is no new one yet.
    pub sandbox_changed: bool,
    /// The version of the pod's cgroup that resized containers wait for (`Place::version`).
    pub version: u64,
    /// A resize of the containers is under way.
    pub resizing: bool,
    /// Why a container could not be resized when it was tried last.
    pub resize_error: Option<String>,
    /// Why the pod does not have the resources that it should have: there is no room for them.
    pub resize: Option<ResizePending>,
    /// One of the permits to start, from the creation of its sandbox until there is nothing to do at once.
    pub starting: Option<OwnedSemaphorePermit>,
    /// Kills for memory in containers that are not known yet, by container id.
    pub early_ooms: Vec<(String, OomVictim)>,
    /// When the pod's volumes are to be written again: something that they show may have changed.
    pub refresh: Option<Instant>,
    /// Why volumes keep what they have, as reported last.
    pub kept_volumes: Vec<String>,
    /// Its processes were killed through its cgroup, and may still be ending.
    pub killed: bool,
    /// The pod is gone, and its record is being removed: nothing is saved any more, even if a part still
    /// reports a probe's result.
    pub forgotten: bool,
    /// The pod was adopted, and the runtime has not answered yet what it has of it.
    pub unseen: bool,
    /// Boxed, since most pods have none.
    pub probing: Option<Box<Probing>>,
    /// What the API server knows of the pod; `None` for pods of manifests.
    pub api: Option<Arc<ApiState>>,
    /// A pod of the API server that is being deleted there, and of which nothing is left here.
    pub ended: bool,
    /// The API server no longer has it.
    pub unwanted: bool,
    /// The API server has it as succeeded or failed. Boxed, since most pods never have it.
    pub over: Option<Box<Over>>,
}

/// The probes of a pod. Only pods whose containers have probes, or of which the kernel has just seen one end,
/// have it.
#[derive(Debug, Default)]
pub struct Probing {
    pub published: Published,
    /// Containers that are probed.
    pub watched: Vec<Watched>,
}

impl Probing {
    /// What an earlier agent has recorded; `None` for most pods.
    pub fn of(record: &Record) -> Option<Box<Self>> {
        let published = Published::of(record);
        (published != NOTHING).then(|| Box::new(Self { published, watched: Vec::new() }))
    }
}

/// A start that failed.
#[derive(Debug, Clone)]
pub struct Failed {
    /// Shown while it waits for the next attempt.
    pub waiting: Waiting,
    /// In a row.
    pub times: u32,
    pub again: Instant,
}

impl PodState {
    /// `unseen` is dropped with [`Self::mark_seen`].
    pub fn new(
        env: Arc<Environment>,
        pod: Arc<Pod>,
        record: Record,
        orders: WeakOrders,
        unseen: Option<mpsc::Sender<Infallible>>,
    ) -> Arc<Self> {
        let saver = saver(env.store.clone());
        let probing = Probing::of(&record);
        let inner = Inner {
            pod,
            record,
            observed: Observed::default(),
            failed: BTreeMap::new(),
            plan: Plan::default(),
            trouble: None,
            sandbox_failures: 0,
            sandbox_changed: false,
            version: 0,
            resizing: false,
            resize_error: None,
            resize: None,
            starting: None,
            early_ooms: Vec::new(),
            // Of a pod of an earlier agent; a new one's are written before it has a sandbox.
            refresh: Some(Instant::now()),
            kept_volumes: Vec::new(),
            forgotten: false,
            unseen: unseen.is_some(),
            probing,
            api: None,
            ended: false,
            killed: false,
            unwanted: false,
            over: None,
        };
        Arc::new_cyclic(|own| Self {
            env,
            own: own.clone(),
            orders,
            inner: Mutex::new(inner),
            saver,
            ending: Notify::new(),
            removals: Removals::default(),
            unseen: Mutex::new(unseen),
        })
    }

    /// The runtime was asked about the pod, or does not answer: an adopted pod counts as seen from now on.
    pub fn mark_seen(&self) {
        self.unseen.lock().take();
    }

    /// The work for this pod has just panicked on this thread.
    pub async fn record_fault(&self) {
        let (uid, faults) = (self.pod().uid.clone(), self.env.faults.clone());
        let (text, now) = (parts::last_panic_text(), Timestamp::now());
        let written = blocking::STATE_FILES.run(move || faults.record(&uid, &text, now)).await;
        if let Ok(Err(error)) = written {
            warn!(uid = self.pod().uid, "cannot write down a fault: {error}");
        }
    }

    /// The state as it is now, to be read. Never kept across an await.
    pub fn read(&self) -> impl Deref<Target = Inner> + '_ {
        ReadOnly(self.inner.lock())
    }

    /// Changes what is only in memory, and shows nothing.
    pub fn set<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        change(&mut self.inner.lock())
    }

    pub fn pod(&self) -> Arc<Pod> {
        self.read().pod.clone()
    }

    /// Whether it is a pod of the API server.
    pub fn is_api(&self) -> bool {
        self.read().record.origin.is_api()
    }

    /// The pod is being ended, for good or by an eviction, or has ended by an eviction.
    pub fn is_ending(&self) -> bool {
        self.read().record.is_leaving()
    }

    /// Takes a permit to start if there is one and the pod has none yet; false if it has to wait for one.
    pub fn may_start(&self) -> bool {
        self.set(|inner| {
            if inner.starting.is_none() {
                inner.starting = self.env.starts.clone().try_acquire_owned().ok();
            }
            inner.starting.is_some()
        })
    }

    /// Lets another pod start: this one is started, or waits for something.
    pub fn release_start_permit(&self) {
        self.set(|inner| inner.starting = None);
    }

    /// Wakes whatever waits in [`Self::unless_ending`] and [`Self::unless_sooner`].
    pub fn interrupt(&self) {
        self.ending.notify_waiters();
    }

    /// The future's result, or `None` as soon as the pod is to end. The future must be one that may be
    /// dropped.
    pub async fn unless_ending<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let ending = self.ending.notified();
        tokio::pin!(ending);
        // Before looking, or a notification between the look and the wait would be missed.
        ending.as_mut().enable();
        if self.is_ending() {
            return None;
        }
        tokio::select! {
            done = future => Some(done),
            () = ending => None,
        }
    }

    /// The future's result, or `None` as soon as the pod's containers have to have ended before `due`.
    pub async fn unless_sooner<T>(&self, due: Instant, future: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(future);
        loop {
            let ring = self.ending.notified();
            tokio::pin!(ring);
            ring.as_mut().enable();
            if self.due_by(due) + SAME < due {
                return None;
            }
            tokio::select! {
                done = &mut future => return Some(done),
                () = ring => {}
            }
        }
    }

    /// When what has until `due` has to have ended, given how long the pod has.
    pub fn due_by(&self, due: Instant) -> Instant {
        let now = self.now();
        let left = {
            let inner = self.read();
            inner.record.due().map(|_| inner.record.left(now))
        };
        left.and_then(|left| Instant::now().checked_add(left)).map_or(due, |own| own.min(due))
    }

    /// The wall clock now. The times in the record are moved along first if it was set since they were taken.
    pub fn now(&self) -> Timestamp {
        let clocks = read_clocks();
        self.inner.lock().record.align(&clocks);
        clocks.wall
    }

    /// See [`deadline::overdue`].
    pub fn overdue(&self, view: &PodView) -> Option<Eviction> {
        deadline::overdue(view, &mut self.inner.lock().record, &read_clocks())
    }

    /// Waits for this time; false as soon as the pod is to end.
    pub async fn pause(&self, time: Duration) -> bool {
        self.unless_ending(tokio::time::sleep(time)).await.is_some()
    }

    pub fn own(&self) -> Weak<Self> {
        self.own.clone()
    }

    /// Sends an order to the pod's worker; does nothing when the agent ends.
    pub fn order(&self, order: Order) {
        if let Some(orders) = self.orders.upgrade() {
            let _ = orders.send(order);
        }
    }

    /// Changes the record, has it saved and shows the pod. As [`Self::show`] it is the worker's alone.
    pub fn update(&self, change: impl FnOnce(&mut Inner)) {
        self.save(|inner| {
            change(inner);
            true
        });
        self.show();
    }

    /// Changes the record and has it saved if there was anything to change, which is returned. False, and
    /// nothing is saved, once the pod is forgotten.
    pub fn save(&self, change: impl FnOnce(&mut Inner) -> bool) -> bool {
        let mut inner = self.inner.lock();
        inner.record.align(&read_clocks());
        let changed = change(&mut inner) && !inner.forgotten;
        if changed {
            // Before the lock is given back: the newest record must be the one that is saved last.
            self.saver.save(inner.record.clone());
        }
        changed
    }

    /// Changes what is only in memory, and publishes the status.
    pub fn note(&self, change: impl FnOnce(&mut Inner)) {
        self.set(change);
        self.show();
    }

    fn devices(&self) -> DeviceHealth {
        let pod = self.pod();
        if PodDemand::of(&pod).is_empty() { DeviceHealth::new() } else { self.env.devices.health(&pod.uid) }
    }

    /// Publishes the pod's status.
    pub fn show(&self) {
        // Asked for before the lock: the devices have one of their own.
        let devices = self.devices();
        let node_ips = self.env.host_ips();
        let mut view = {
            let inner = self.read();
            let failed = inner.failed.iter().map(|(name, failed)| (name.clone(), failed.waiting.clone()));
            phase::view(&phase::Facts {
                pod: &inner.pod,
                observed: &inner.observed,
                record: &inner.record,
                published: inner.published(),
                plan: &inner.plan,
                failed: &failed.collect(),
                devices: &devices,
                node_ips: &node_ips,
                trouble: inner.trouble.as_deref(),
                resize: inner.resize.as_ref(),
                resizing: (inner.resizing, inner.resize_error.as_deref()),
                api: inner.api.as_ref(),
                ended: inner.ended,
            })
        };
        view.unseen = self.read().unseen;
        self.env.status.set(view);
    }

    /// Waits until the record is on disk.
    pub async fn saved(&self) {
        // A failure is in the log, and the pod runs on with what is in memory.
        drop(self.saver.settled().await);
    }

    /// To wait for the record without holding the pod.
    pub fn saver(&self) -> RecordSaver {
        self.saver.clone()
    }
}

/// A locked state that cannot be changed.
struct ReadOnly<'a>(MutexGuard<'a, Inner>);

impl Deref for ReadOnly<'_> {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Inner {
    /// How its containers stand by their probes.
    pub fn published(&self) -> &Published {
        self.probing.as_ref().map_or(&NOTHING, |probing| &probing.published)
    }

    pub fn probing_mut(&mut self) -> &mut Probing {
        self.probing.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_pod_is_small() {
        assert!(size_of::<Record>() <= 152, "{}", size_of::<Record>());
        assert!(size_of::<PodState>() <= 624, "{}", size_of::<PodState>());
    }
}
