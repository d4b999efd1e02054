//! One reconcile: read the cgroups, decide, write, publish.
//!
//! A [`Reconcile::Full`] compares every cgroup with its wanted limits. A [`Reconcile::Partial`] follows a
//! change of the pods: it computes the wanted limits of all cgroups, which reads no file, and reads and
//! writes only those whose wanted limits changed.

mod capacity;
mod check;
mod compared;
#[cfg(test)]
mod foreign;
#[cfg(test)]
mod moved;
mod orphans;
mod pod_cgroups;
mod report;
mod status;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod throttled;
#[cfg(test)]
mod unread;
mod wanted;
mod withheld;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

use super::containers::Namer;
use super::desired::{DesiredCgroups, PodCgroupStates};
use super::destroyer::Destroyer;
use super::enforcement::Enforcement;
use super::own_levels::OwnLevels;
use super::owned::{Entry, Owned};
use super::problems::Problems;
use super::seen::SeenContainers;
use super::shared::{ByPath, SharedLimits, shared};
use super::status::StatusReader;
use super::steps::{Pass, Step, steps};
use super::sweeper::InUse;
use super::throttle::{ThrottleOverrides, ThrottleTargets, can_idle};
use super::touched::{Compare, Touched};
use super::unused::EmptyForeign;
use nodewarden_config::NodeSettings;
use nodewarden_machine::cgroup::control::{Driver, Limits, Manager};
use nodewarden_machine::node::Capacity;
use nodewarden_machine::node::daemons::Daemons;
use nodewarden_machine::node::gather::Sources;
use nodewarden_manifest::QosClass;
use nodewarden_model::Origin;
use nodewarden_qos::{FormulaEvidence, HierarchyFacts, Levels};
use nodewarden_storage::journal::Journal;
use wanted::Wanted;

/// Configuration and dependencies of the reconciler.
pub struct Setup {
    pub settings: NodeSettings,
    pub facts: HierarchyFacts,
    pub levels: Levels,
    pub manager: Arc<Manager>,
    /// Containers belong to their runtime: they are corrected through their files, whichever driver creates
    /// the pods.
    pub files: Arc<dyn Driver>,
    pub namer: Namer,
    pub daemons: Daemons,
    /// How often the cgroups of daemons are checked.
    pub reconcile: Duration,
    pub owned: Owned,
    /// The levels that this agent has created, those of earlier settings too.
    pub own_levels: OwnLevels,
    pub journal: Journal,
    /// Whether a pod, by uid, still has volumes: its cgroup is desired as long, with the lowest CPU share.
    pub has_volumes: HasVolumes,
    /// Of which pods the runtime has anything; `None` without a runtime.
    pub in_use: Option<InUse>,
    /// Where the capacity of the machine is read.
    pub sources: Sources,
    /// As read last, for everybody who needs it.
    pub capacity: watch::Sender<Arc<Capacity>>,
    /// Where the driver setting comes from.
    pub driver_from: &'static str,
    /// A directory on the file system whose size is the node's ephemeral storage.
    pub state_dir: PathBuf,
}

/// Returns whether a pod, by uid, still has volumes.
pub type HasVolumes = Box<dyn Fn(&str) -> bool + Send>;

/// Which cgroups are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconcile {
    /// All.
    Full,
    /// Those whose wanted limits changed.
    Partial,
}

/// Reconciles the hierarchy; owned by the manager's thread.
pub struct Reconciler {
    setup: Setup,
    keep: Option<DesiredCgroups>,
    /// Reduced limits of the levels.
    overrides: ThrottleOverrides,
    /// Updates sent and applied. If they differ, container information is stale.
    pending_updates: Arc<AtomicU64>,
    applied_updates: u64,
    /// The first full reconcile is over.
    begun: bool,
    /// As of the last reconcile.
    wanted: Arc<Wanted>,
    /// Neither the pods nor the overrides have changed since then.
    is_current: bool,
    /// The wanted limits before the current reconcile; none between reconciles.
    earlier: Option<Arc<Wanted>>,
    /// Cgroups that the current reconcile has created; empty between reconciles.
    created: BTreeSet<Arc<str>>,
    /// The wanted limits, each once.
    shared: SharedLimits,
    /// To be compared in the next reconcile, changed or not.
    again: BTreeSet<Arc<str>>,
    /// Limits as last written; a found difference from them is a correction.
    written: ByPath,
    corrections: u64,
    problems: Problems,
    evidence: FormulaEvidence,
    /// Which cgroups were written to since the last full reconcile.
    touched: Touched,
    /// Containers seen in the last full reconcile: the runtime may still be setting the limits of a newer
    /// one.
    containers: SeenContainers,
    /// Pods with containers whose limits could not be compared in the last full reconcile, by path.
    unchecked: BTreeSet<Arc<str>>,
    /// When the daemons were last checked, and the problems found.
    placed: Option<(Instant, Vec<String>)>,
    /// Existing cgroups of pods and levels.
    existing: BTreeSet<Arc<str>>,
    /// Pods' cgroups that this full reconcile has found in every hierarchy; empty between reconciles.
    everywhere: BTreeSet<Arc<str>>,
    /// Cgroups that could not be created, read or written, with the error.
    failed: BTreeMap<Arc<str>, String>,
    /// Cgroups of this agent that are not wanted any more but whose pods still have volumes; they have the
    /// lowest CPU share until those are gone.
    held: BTreeSet<Arc<str>>,
    /// Cgroups that pods had with other settings and in which they still have processes, by the pod's uid.
    formers: BTreeMap<Arc<str>, Arc<str>>,
    foreign: BTreeSet<Arc<str>>,
    /// What was reported of the limits that enforce node allocatable.
    enforcement: Enforcement,
    /// Foreign cgroups without a process.
    empty_foreign: EmptyForeign,
    /// Foreign cgroups that may be removed if the runtime has nothing of their pods.
    unused: Vec<Arc<str>>,
    /// Number of limits by path that are not lowered because of pods that are not counted.
    withheld: BTreeMap<Arc<str>, usize>,
    /// Cgroups whose memory limit waits until less than it is in use.
    deferred: BTreeSet<Arc<str>>,
    pod_cgroups: watch::Sender<Arc<PodCgroupStates>>,
    reconciled: Option<SystemTime>,
    status: StatusReader,
}

impl Reconciler {
    pub fn new(setup: Setup) -> Self {
        Self {
            touched: Touched::watch(setup.manager.layout()),
            setup,
            keep: None,
            overrides: ThrottleOverrides::default(),
            pending_updates: Arc::default(),
            applied_updates: 0,
            begun: false,
            wanted: Arc::default(),
            is_current: false,
            earlier: None,
            created: BTreeSet::new(),
            shared: SharedLimits::default(),
            again: BTreeSet::new(),
            written: ByPath::new(),
            corrections: 0,
            problems: Problems::default(),
            evidence: FormulaEvidence::default(),
            containers: SeenContainers::default(),
            unchecked: BTreeSet::new(),
            placed: None,
            existing: BTreeSet::new(),
            everywhere: BTreeSet::new(),
            failed: BTreeMap::new(),
            held: BTreeSet::new(),
            formers: BTreeMap::new(),
            foreign: BTreeSet::new(),
            enforcement: Enforcement::default(),
            empty_foreign: EmptyForeign::default(),
            unused: Vec::new(),
            withheld: BTreeMap::new(),
            deferred: BTreeSet::new(),
            pod_cgroups: watch::Sender::default(),
            reconciled: None,
            status: StatusReader::default(),
        }
    }

    pub fn manager(&self) -> &Arc<Manager> {
        &self.setup.manager
    }

    pub fn status(&self) -> StatusReader {
        self.status.clone()
    }

    /// Registers a cgroup that was just created without limits: setting them is not a correction.
    pub fn made(&mut self, path: &str) {
        let found = self.setup.manager.read(path).unwrap_or_default();
        self.written.insert(path.into(), Arc::new(found));
    }

    /// Counter of the updates sent to [`Reconciler::keep`], shared with the senders.
    pub fn pending_updates(&self) -> Arc<AtomicU64> {
        self.pending_updates.clone()
    }

    /// Sets the desired cgroups at the start.
    pub fn begin(&mut self, keep: DesiredCgroups) {
        self.keep = Some(keep);
        self.is_current = false;
    }

    /// Applies an update of the desired cgroups.
    pub fn keep(&mut self, keep: DesiredCgroups) {
        self.keep = Some(keep);
        self.is_current = false;
        self.applied_updates += 1;
    }

    /// Sets the throttle overrides.
    pub fn throttle(&mut self, overrides: ThrottleOverrides) {
        self.overrides = overrides;
        self.is_current = false;
    }

    /// Removes the throttle overrides, if there are any, and reconciles.
    pub fn release(&mut self, destroyer: &mut Destroyer) {
        if std::mem::take(&mut self.overrides) != ThrottleOverrides::default() {
            self.is_current = false;
            self.reconcile(Reconcile::Partial, destroyer);
        }
    }

    /// The levels that can be throttled.
    pub fn throttle_targets(&self) -> ThrottleTargets {
        let Setup { settings, facts, manager, .. } = &self.setup;
        ThrottleTargets {
            manager: manager.clone(),
            best_effort: self.level(QosClass::BestEffort),
            burstable: self.level(QosClass::Burstable),
            levels: settings.cgroups_per_qos,
            idle: can_idle(facts, manager.kind()),
            memory_high: facts.v2(),
        }
    }

    /// The state of every pod's cgroup, as of the last reconcile.
    pub fn pod_cgroups(&self) -> watch::Receiver<Arc<PodCgroupStates>> {
        self.pod_cgroups.subscribe()
    }

    /// Takes [`Setup::in_use`], for the thread that calls it.
    pub fn take_in_use(&mut self) -> Option<InUse> {
        self.setup.in_use.take()
    }

    /// The machine's capacity as of the last full reconcile.
    pub fn capacity(&self) -> watch::Receiver<Arc<Capacity>> {
        self.setup.capacity.subscribe()
    }

    /// Foreign cgroups that the last full reconcile found unused.
    pub fn take_unused(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.unused)
    }

    /// Whether cgroups wait for the removal of volumes or for the end of processes, which is not notified.
    pub fn has_deferred(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether something failed and has to be tried again.
    pub fn has_failures(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Reads, compares and writes cgroups.
    pub fn reconcile(&mut self, scope: Reconcile, destroyer: &mut Destroyer) {
        let whole = scope == Reconcile::Full || !std::mem::replace(&mut self.begun, true);
        let mut troubled = BTreeSet::new();
        if whole {
            self.problems.begin();
            troubled.extend(std::mem::take(&mut self.failed).into_keys());
            troubled.extend(std::mem::take(&mut self.withheld).into_keys());
            troubled.extend(std::mem::take(&mut self.deferred));
            self.place_daemons();
            self.measure();
        } else {
            self.problems.begin_some(|about| matches!(about, "manifests" | "state"));
        }
        for problem in self.keep.iter().flat_map(|keep| &keep.problems) {
            self.problems.add("manifests", problem.clone());
        }
        let Some(wanted) = self.wanted() else {
            self.touched.doubt();
            return self.publish_status(destroyer);
        };
        let before = std::mem::replace(&mut self.wanted, wanted.clone());
        self.is_current = true;
        self.earlier = Some(before.clone());
        let again = std::mem::take(&mut self.again);
        let touched = self.touched(whole, wanted.capacity != before.capacity);
        let mut limits = match touched {
            Some(Compare::All) => wanted.limits.clone(),
            _ => wanted.changed(&before, &again),
        };
        if !whole {
            self.problems.forget(|about| limits.contains_key(about));
            self.failed.retain(|path, _| !limits.contains_key(path) && wanted.limits.contains_key(path));
            self.withheld.retain(|path, _| !limits.contains_key(path));
            self.deferred.retain(|path| !limits.contains_key(path));
        }
        let may_make = self.record_pods(&wanted);
        let verdict = self.classify(&wanted, whole, destroyer);
        if let Some(Compare::Some(written)) = &touched {
            limits.extend(self.in_doubt(&wanted, written, &troubled));
        }
        limits.retain(|path, _| !destroyer.removing().iter().any(|r| within(path, r)));
        let uncounted = self.uncounted(&verdict);
        let (found, unreadable) = self.read(&limits);
        limits.retain(|path, _| !unreadable.contains(path));
        self.existing.extend(found.keys().cloned().chain(unreadable));
        let mut published = Instant::now();
        for step in steps(&limits, &found) {
            let new_pod = matches!(step, Step::Create { .. }) && wanted.pods.contains_key(step.path());
            match step {
                Step::Create { .. } if new_pod && !may_make => {}
                Step::Set { path, limits, pass: pass @ Pass::Shrink } => {
                    let limits = self.withhold(&path, &limits, &uncounted, &wanted);
                    if limits != Limits::default() {
                        let limits = Arc::new(limits);
                        self.carry_out(&Step::Set { path, limits, pass }, &found, &wanted);
                    }
                }
                step => self.carry_out(&step, &found, &wanted),
            }
            // Published in between, so that a pod among many does not wait for the last one.
            if new_pod && published.elapsed() >= OFTEN {
                self.publish_pod_cgroups(destroyer);
                published = Instant::now();
            }
        }
        self.report_enforcement(&wanted);
        self.earlier = None;
        self.created.clear();
        self.written.retain(|path, _| wanted.limits.contains_key(path) || self.held.contains(path));
        if let Some(touched) = &touched {
            self.check_containers(&wanted, touched);
        }
        self.remove_unwanted(verdict, &wanted, whole, destroyer);
        if whole {
            self.reconciled = Some(SystemTime::now());
            self.sync_records();
        }
        self.publish_status(destroyer);
    }

    /// Records new pod cgroups before they are created. Returns false if that fails: then they are not
    /// created.
    fn record_pods(&mut self, wanted: &Wanted) -> bool {
        let owned = self.setup.owned.pods();
        let known = |path: &str, uid: &str, origin: &Origin| {
            owned.get(path).is_some_and(|entry| *entry.uid == *uid && entry.origin == *origin)
        };
        let news =
            wanted.pods.iter().filter(|(path, desired)| !known(path, &desired.pod.uid, &desired.origin));
        let entry = |uid: &str, origin: &Origin| Entry { uid: uid.into(), origin: origin.clone() };
        let news: Vec<_> =
            news.map(|(path, desired)| (path.clone(), entry(&desired.pod.uid, &desired.origin))).collect();
        let Err(error) = self.setup.owned.add(news) else { return true };
        self.problems.add("state", error.to_string());
        for path in wanted.pods.keys().filter(|path| !self.setup.manager.exists(path)) {
            self.failed.insert(path.clone(), error.to_string());
        }
        false
    }

    /// Reads what has to be compared with these limits. Also returns the existing cgroups that cannot be
    /// read: those are not written either.
    fn read(&mut self, limits: &ByPath) -> (ByPath, BTreeSet<Arc<str>>) {
        let (mut found, mut unreadable) = (ByPath::new(), BTreeSet::new());
        let everywhere = std::mem::take(&mut self.everywhere);
        let manager = self.setup.manager.clone();
        for (path, wanted) in limits {
            let seen = everywhere.contains(path);
            if !seen && !manager.exists(path) {
                self.existing.remove(path);
                continue;
            }
            match manager.read_for(path, wanted) {
                // It was removed since it was seen.
                Ok(limits) if seen && limits == Limits::default() && !manager.exists(path) => {
                    self.existing.remove(path);
                }
                Ok(limits) => drop(found.insert(path.clone(), shared(limits, wanted))),
                Err(error) => {
                    self.failed.insert(path.clone(), error.to_string());
                    self.problems.add(path, error.to_string());
                    unreadable.insert(path.clone());
                }
            }
        }
        (found, unreadable)
    }
}

/// Time between two publications while many cgroups are created.
const OFTEN: Duration = Duration::from_millis(5);

/// Whether `path` is equal to `above` or below it.
fn within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
