//! The one that starts and ends workers: takes what the sources want and what the kernel and the runtime
//! report, and sends orders.

mod api;
mod happened;
mod look;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::act::housekeeping::Housekeeping;
use crate::act::resize::PodResize;
use crate::act::{admitting, cpusets, devices};
use crate::decide::identity;
use crate::decide::identity::Running;
use crate::decide::relist::EventStream;
use crate::decide::waiting;
use crate::environment::Environment;
use crate::faults::Fault;
use crate::orders::{Order, Orders, Report, orders};
use crate::record::{Ending, Record};
use crate::state::PodState;
use crate::worker;
use api::OrderedByApi;
use nodewarden_eviction::Eviction;
use nodewarden_hierarchy::{DesiredCgroup, DesiredCgroups, HierarchyHandle};
use nodewarden_manifest::Pod;
use nodewarden_model::Origin;
use nodewarden_pods::source::{Deletion, Desired, SourcedPod};
use nodewarden_pods::status::DesiredPods;
use nodewarden_tasks::faults;
use nodewarden_tasks::pause::every;

/// What reaches the manager from outside.
#[derive(Debug)]
pub enum Input {
    Desired(Desired),
    /// The runtime says that something happened to this pod.
    Runtime {
        uid: String,
    },
    /// An object that this pod names has changed.
    Object {
        uid: String,
    },
    /// A pod is evicted or preempted.
    Evict {
        uid: String,
        eviction: Eviction,
    },
    /// Whether the runtime reports what happens from now on.
    Events(EventStream),
    /// The runtime can be asked again, or its stream of events broke: everything may have changed.
    Everything,
}

/// A pod that has a worker.
struct WorkerEntry {
    orders: Orders,
    /// Gone when the worker is.
    state: Weak<PodState>,
    kept: DesiredCgroup,
    ending: bool,
    /// How it was last ordered to end. Boxed, since most pods run.
    deletion: Option<Box<Deletion>>,
    /// It has ended by an eviction and has not started again: it has no cgroup.
    evicted: bool,
    resize: PodResize,
    api: OrderedByApi,
}

/// Starts a worker for each pod, sends it orders, and receives its reports.
pub struct Manager {
    env: Arc<Environment>,
    sink: HierarchyHandle,
    desired: Desired,
    /// By uid. Boxed: a map has room for more entries than it holds.
    workers: BTreeMap<String, Box<WorkerEntry>>,
    reports: mpsc::UnboundedSender<Report>,
    reported: mpsc::UnboundedReceiver<Report>,
    housekeeping: Housekeeping,
    version: u64,
}

impl Manager {
    /// A manager without workers.
    pub fn new(env: Arc<Environment>, sink: HierarchyHandle, housekeeping: Housekeeping) -> Self {
        let (reports, reported) = mpsc::unbounded_channel();
        Self {
            env,
            sink,
            desired: Desired::default(),
            workers: BTreeMap::new(),
            reports,
            reported,
            housekeeping,
            version: 0,
        }
    }

    /// Starts a worker for each pod of an earlier agent. Each holds a clone of `unseen` until it has asked
    /// the runtime about its pod.
    pub fn adopt(&mut self, records: Vec<(Record, Arc<Pod>)>, unseen: mpsc::Sender<Infallible>) {
        // Before any worker: one whose pod waits would be admitted to what a pod that runs holds.
        records.iter().for_each(|(record, pod)| self.hold(record, pod));
        for (record, pod) in records {
            self.begin(pod, record, false, Some(unseen.clone()));
        }
    }

    /// Runs until the inputs end.
    pub async fn run(mut self, mut inputs: mpsc::UnboundedReceiver<Input>) {
        let mut events = self.env.journal.subscribe(None);
        // The first look is made at once.
        let mut next = Instant::now();
        let mut looked = next;
        let mut soon = true;
        loop {
            let happened = tokio::select! {
                biased;
                input = inputs.recv() => match input {
                    Some(input) => {
                        self.take_input(input);
                        true
                    }
                    None => return,
                },
                Some(report) = self.reported.recv() => {
                    self.report(report);
                    true
                }
                Some(event) = events.next() => {
                    self.event(&event);
                    true
                }
                found = self.housekeeping.found() => {
                    self.take_listing(found);
                    self.housekeeping.is_in_doubt(&self.env)
                }
                () = tokio::time::sleep_until(next) => {
                    looked = Instant::now();
                    soon = self.look();
                    false
                }
            };
            soon |= happened;
            let period = self.env.pods.housekeeping;
            next = if soon { looked + period } else { every(self.housekeeping.quiet().max(period)).into() };
        }
    }

    fn take_input(&mut self, input: Input) {
        match input {
            Input::Desired(desired) => self.desire(desired),
            Input::Runtime { uid } => self.runtime_event(&uid),
            Input::Events(events) => self.housekeeping.set_events(events),
            Input::Object { uid } => self.order(&uid, Order::Refresh),
            Input::Evict { uid, eviction } => {
                self.env.admission.leaving(&uid);
                self.order(&uid, Order::Evict(eviction));
            }
            Input::Everything => self.check_every_pod(),
        }
    }

    /// Takes over what the sources want from now on.
    pub fn desire(&mut self, desired: Desired) {
        if desired.is_complete() && !self.desired.is_complete() {
            // From now on what no pod owns is removed.
            self.housekeeping.doubt();
        }
        self.desired = desired;
        self.assign();
        let complete = self.desired.is_complete();
        self.env.status.set_desired(DesiredPods { pods: self.desired.pods.clone(), complete });
    }

    fn assign(&mut self) {
        let running = self.workers.iter().map(|(uid, entry)| {
            let running = Running {
                // The pod that a resize is leading to, not what its cgroup is sized for meanwhile.
                pod: entry.resize.target().unwrap_or(&entry.kept.pod).clone(),
                origin: entry.kept.origin.clone(),
                ending: entry.ending,
            };
            (uid.clone(), running)
        });
        let mut assignment = identity::assign(&self.desired, &running.collect(), self.housekeeping.tidying());
        for uid in assignment.end {
            self.end(&uid, Origin::removed_reason);
        }
        for uid in assignment.replace {
            self.end(&uid, Origin::replaced_reason);
        }
        for (uid, deletion) in assignment.delete {
            self.delete(&uid, deletion);
        }
        for (sourced, deletion) in assignment.finish {
            self.finish(sourced, deletion);
        }
        for (uid, over) in assignment.over {
            self.over(&uid, over);
        }
        for uid in assignment.gone {
            self.forget(&uid);
        }
        for pod in assignment.update {
            self.update(pod);
        }
        for (uid, origin) in assignment.moved {
            if let Some(entry) = self.workers.get_mut(&uid) {
                entry.kept.origin.clone_from(&origin);
                let _ = entry.orders.send(Order::Moved { origin });
            }
        }
        for uid in &assignment.keep {
            if let Some(entry) = self.workers.get_mut(uid) {
                entry.resize.cancel(&entry.orders);
            }
        }
        for pod in assignment.resize {
            self.resize(pod);
        }
        for SourcedPod { pod, origin, api, .. } in assignment.start {
            let fresh = self.housekeeping.never_had(&pod.uid);
            let record = Record::new(&pod, origin, Timestamp::now());
            let uid = pod.uid.clone();
            self.begin(pod, record, fresh, None);
            assignment.states.extend(api.map(|api| (uid, api)));
        }
        for (uid, api) in assignment.states {
            self.api_state(&uid, api);
        }
        let status = &self.env.status;
        status.set_waiting(waiting::views(&assignment.wait, &status.waiting(), Timestamp::now()));
        self.send();
    }

    fn begin(
        &mut self,
        pod: Arc<Pod>,
        record: Record,
        fresh: bool,
        unseen: Option<mpsc::Sender<Infallible>>,
    ) {
        let uid = pod.uid.clone();
        self.housekeeping.begins(&uid);
        self.env.devices.claim(&uid);
        self.env.managers.claim(&uid);
        if let Some(objects) = &self.env.objects {
            objects.register(&pod);
        }
        let is_evicted = record.is_evicted();
        self.hold(&record, &pod);
        if record.admitted && !is_evicted && !self.env.managers.is_unreported(&uid) {
            cpusets::adopt(&self.env, &pod, &BTreeMap::new());
        }
        let kept = DesiredCgroup {
            pod: pod.clone(),
            applied: pod.clone(),
            version: 0,
            origin: record.origin.clone(),
        };
        let (orders, inbox) = orders();
        let ending = record.ending.is_some();
        let state = PodState::new(self.env.clone(), pod, record, orders.downgrade(), unseen);
        // The status says nothing of it before it was looked at: a kubelet has started it.
        let runs = self.housekeeping.has(&uid);
        state.update(|inner| inner.unseen |= runs);
        let (reports, own) = (self.reports.clone(), state.own());
        let wait = self.wait_after_fault(&state.pod());
        let worker = worker::watched(state, inbox, reports, fresh, wait);
        tokio::spawn(faults::about(uid.as_str().into(), worker));
        self.workers.insert(
            uid,
            Box::new(WorkerEntry {
                orders,
                state: own,
                kept,
                ending,
                deletion: None,
                evicted: is_evicted,
                resize: PodResize::default(),
                api: OrderedByApi::default(),
            }),
        );
    }

    /// A pod that runs, or did when an earlier agent ended, holds what it was admitted with.
    fn hold(&self, record: &Record, pod: &Arc<Pod>) {
        if !record.admitted || record.is_evicted() {
            return;
        }
        admitting::enter(&self.env, pod, record);
        if record.is_leaving() {
            self.env.admission.leaving(&pod.uid);
        }
    }

    /// Ends a pod that its source no longer has.
    fn end(&mut self, uid: &str, reason: fn(&Origin) -> String) {
        let Some(entry) = self.workers.get(uid).filter(|entry| !entry.ending) else { return };
        let mut grace = nodewarden_manifest::grace(&entry.kept.pod);
        if entry.kept.origin.is_api() {
            grace = grace.min(api::FORCED);
        }
        let reason = reason(&entry.kept.origin);
        self.delete(uid, Deletion { since: Timestamp::now(), grace, reason });
    }

    /// Ends a pod as its source asks; one that ends already may get less time.
    fn delete(&mut self, uid: &str, deletion: Deletion) {
        let Some(entry) = self.workers.get_mut(uid) else { return };
        if entry.deletion.as_deref() == Some(&deletion) {
            return;
        }
        entry.ending = true;
        self.env.admission.leaving(uid);
        let (since, grace_seconds) = (deletion.since, deletion.grace.as_secs());
        let ending = Ending { since, grace_seconds, why: deletion.reason.clone() };
        entry.deletion = Some(Box::new(deletion));
        // A worker that is gone already is reported so.
        let _ = entry.orders.send(Order::End(ending));
    }

    fn resize(&mut self, pod: Arc<Pod>) {
        let Some(entry) = self.workers.get_mut(&pod.uid) else { return };
        let target = (pod, self.version + 1);
        if entry.resize.start(
            (&self.env.admission, &self.env.managers),
            &mut entry.kept,
            &entry.orders,
            target,
        ) {
            self.version += 1;
        }
    }

    fn report(&mut self, report: Report) {
        match report {
            Report::Resized { uid } => {
                let Some(entry) = self.workers.get_mut(&uid) else { return };
                if entry.resize.finish(&self.env.admission, &mut entry.kept) {
                    self.send();
                }
            }
            Report::Contradicted { uid, sure } => self.housekeeping.contradicted(uid, sure),
            Report::Evicted { uid } => self.set_evicted(&uid, true),
            Report::Restarted { uid } => self.set_evicted(&uid, false),
            Report::Died { pod, record } => {
                self.begin(pod, *record, false, None);
                // A resize that it was carrying out, or waited for, is ordered again.
                self.assign();
            }
            Report::Gone { uid } => {
                self.workers.remove(&uid);
                self.housekeeping.gone(&uid);
                devices::release(&self.env, &uid);
                self.env.faults.forget(&uid);
                if let Some(objects) = &self.env.objects {
                    objects.forget(&uid);
                }
                // Another pod of its name may wait for this.
                self.assign();
                self.sink.volumes_changed();
            }
        }
    }

    /// How long the worker of a pod waits because of a fault in the agent; if it does, an event says so.
    fn wait_after_fault(&self, pod: &Pod) -> Duration {
        let Some(fault) = self.env.faults.of(&pod.uid) else { return Duration::ZERO };
        let wait = fault.wait(Timestamp::now());
        if !wait.is_zero() {
            let Fault { times, text, .. } = fault;
            let seconds = wait.as_secs_f64().ceil();
            let message = format!(
                "a fault in the agent (in a row: {times}): {text}; the pod's worker starts again in {seconds} s"
            );
            self.env.record_event(pod, None, "WorkerDied", message);
        }
        wait
    }

    fn set_evicted(&mut self, uid: &str, evicted: bool) {
        let Some(entry) = self.workers.get_mut(uid) else { return };
        if entry.evicted != evicted {
            entry.evicted = evicted;
            self.send();
        }
    }

    /// Sends the hierarchy which pods have a cgroup: everything that has processes keeps it.
    fn send(&self) {
        let here = self.workers.values().filter(|entry| !entry.evicted);
        self.sink.send(DesiredCgroups {
            pods: here.map(|entry| entry.kept.clone()).collect(),
            problems: self.desired.problems.iter().map(ToString::to_string).collect(),
            unread: self.desired.unread.clone(),
        });
    }

    fn order(&self, uid: &str, order: Order) {
        if let Some(entry) = self.workers.get(uid) {
            let _ = entry.orders.send(order);
        }
    }
}

/// How long the start waits for the runtime's first answer.
pub const FIRST_LOOK: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_worker_is_small() {
        assert!(size_of::<WorkerEntry>() <= 120, "{}", size_of::<WorkerEntry>());
    }
}
