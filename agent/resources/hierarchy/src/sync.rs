//! One turn: read what is, decide, write, tell.
//!
//! A [`Turn::Whole`] compares every cgroup with what it should be. A [`Turn::Part`] follows a change of the pods: it
//! computes what should be of all (no file is read for that), and reads and writes only what is now wanted otherwise.

mod check;
mod orphans;
mod places;
mod show;
#[cfg(test)]
mod squeezed;
#[cfg(test)]
mod tests;
mod wanted;
mod write;

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use tokio::sync::watch;
use tracing::{info, warn};

use super::containers::Namer;
use super::destroyer::Destroyer;
use super::entry::only;
use super::keep::{Keep, Places};
use super::keeper::Squeezable;
use super::overlay::{Overlay, can_idle};
use super::owned::{Entry, Owned};
use super::problems::Problems;
use super::steps::{ByPath, Pass, Step, steps};
use nodewarden_config::NodeSettings;
use nodewarden_machine::cgroup::control::{Driver, Limits, Manager};
use nodewarden_machine::node::Capacity;
use nodewarden_machine::node::daemons::Daemons;
use nodewarden_machine::node::gather::Sources;
use nodewarden_manifest::QosClass;
use nodewarden_model::{Detail, HierarchyStatus, PodRef};
use nodewarden_qos::{FormulaEvidence, HierarchyFacts, Levels};
use nodewarden_storage::journal::Journal;
use wanted::Wanted;

/// What the keeper works with.
pub struct Setup {
    pub settings: NodeSettings,
    pub facts: HierarchyFacts,
    pub levels: Levels,
    pub manager: Arc<Manager>,
    /// Containers are their runtime's: only their files are put right, whichever driver makes the pods.
    pub files: Arc<dyn Driver>,
    pub namer: Namer,
    pub daemons: Daemons,
    /// How often the daemons' places are looked after.
    pub reconcile: Duration,
    pub owned: Owned,
    pub journal: Journal,
    /// Whether a pod's volumes are still there, by uid: its cgroup stays as long, with the least CPU.
    pub has_volumes: HasVolumes,
    /// Who named the driver.
    pub driver_from: &'static str,
    /// On the file system that the ephemeral storage is of.
    pub state_dir: PathBuf,
}

/// Tells whether anything of a pod's volumes is still there, by uid.
pub type HasVolumes = Box<dyn Fn(&str) -> bool + Send>;

/// How much is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Whole,
    Part,
}

/// See the module.
pub struct Syncer {
    setup: Setup,
    keep: Option<Keep>,
    /// Over what the levels want.
    overlay: Overlay,
    /// How many words came, and how many of them were heard: after a newer one, what is known of containers is old.
    words: Arc<AtomicU64>,
    heard: u64,
    /// As of the last whole turn.
    capacity: Option<Capacity>,
    /// As of the last turn.
    wanted: Arc<Wanted>,
    /// As of the turn before, as long as a turn lasts.
    earlier: Arc<Wanted>,
    /// To be compared in the next turn, changed or not.
    again: BTreeSet<String>,
    /// What was last written, and what a found difference is judged by.
    written: ByPath,
    corrections: u64,
    problems: Problems,
    evidence: FormulaEvidence,
    /// Containers that were there at the last whole turn: a newer one may still be getting its limits from its runtime.
    containers: BTreeSet<String>,
    /// When the daemons were last looked after, and what was wrong.
    placed: Option<(Instant, Vec<String>)>,
    /// Pod cgroups, and levels, that are there.
    standing: BTreeSet<String>,
    /// [`Kept::version`] of what each pod's limits were last written for, by path.
    ///
    /// [`Kept::version`]: super::keep::Kept::version
    versions: BTreeMap<String, u64>,
    /// Cgroups that could not be made, read or written.
    failed: BTreeMap<String, String>,
    /// Ours that nobody wants, with the least CPU until their volumes are gone.
    held: BTreeSet<String>,
    foreign: BTreeSet<String>,
    places: watch::Sender<Arc<Places>>,
    reconciled: Option<SystemTime>,
    status: Arc<Mutex<HierarchyStatus>>,
}

impl Syncer {
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            keep: None,
            overlay: Overlay::default(),
            words: Arc::default(),
            heard: 0,
            capacity: None,
            wanted: Arc::default(),
            earlier: Arc::default(),
            again: BTreeSet::new(),
            written: ByPath::new(),
            corrections: 0,
            problems: Problems::default(),
            evidence: FormulaEvidence::default(),
            containers: BTreeSet::new(),
            placed: None,
            standing: BTreeSet::new(),
            versions: BTreeMap::new(),
            failed: BTreeMap::new(),
            held: BTreeSet::new(),
            foreign: BTreeSet::new(),
            places: watch::Sender::default(),
            reconciled: None,
            status: Arc::default(),
        }
    }

    pub fn manager(&self) -> &Arc<Manager> {
        &self.setup.manager
    }

    pub fn status(&self) -> Arc<Mutex<HierarchyStatus>> {
        self.status.clone()
    }

    /// A cgroup that was made just now, still without limits: setting them is no correction.
    pub fn made(&mut self, path: &str) {
        self.written.insert(path.to_owned(), self.setup.manager.read(path).unwrap_or_default());
    }

    /// Counts the words on their way to [`Syncer::keep`], from whoever sends them.
    pub fn words(&self) -> Arc<AtomicU64> {
        self.words.clone()
    }

    /// The pods that should be here before anything is told.
    pub fn begin(&mut self, keep: Keep) {
        self.keep = Some(keep);
    }

    /// The pods that should be here from now on.
    pub fn keep(&mut self, keep: Keep) {
        self.keep = Some(keep);
        self.heard += 1;
    }

    /// What the levels are held to from now on.
    pub fn overlay(&mut self, overlay: Overlay) {
        self.overlay = overlay;
    }

    /// Gives the levels back what was held from them, if anything was.
    pub fn release(&mut self, destroyer: &mut Destroyer) {
        if std::mem::take(&mut self.overlay) != Overlay::default() {
            self.turn(Turn::Part, destroyer);
        }
    }

    /// Who the keeper can hold back, and how.
    pub fn squeezable(&self) -> Squeezable {
        let Setup { settings, facts, manager, .. } = &self.setup;
        Squeezable {
            manager: manager.clone(),
            best_effort: self.level(QosClass::BestEffort),
            burstable: self.level(QosClass::Burstable),
            levels: settings.cgroups_per_qos,
            idle: can_idle(facts, manager.kind()),
            memory_high: facts.v2(),
        }
    }

    /// Where pods' cgroups are, from the last turn on.
    pub fn places(&self) -> watch::Receiver<Arc<Places>> {
        self.places.subscribe()
    }

    /// Whether cgroups wait for something that nobody tells: the end of their volumes.
    pub fn waits(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether something could not be done, and is to be tried again.
    pub fn ails(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Reads and puts right.
    pub fn turn(&mut self, turn: Turn, destroyer: &mut Destroyer) {
        let whole = turn == Turn::Whole || self.capacity.is_none();
        if whole {
            self.problems.begin();
            self.failed.clear();
            self.place_daemons();
            self.measure();
        } else {
            self.problems.begin_some(|about| matches!(about, "manifests" | "state"));
        }
        for problem in self.keep.iter().flat_map(|keep| &keep.problems) {
            self.problems.add("manifests", problem.clone());
        }
        let Some(wanted) = self.wanted() else { return self.show(destroyer) };
        let before = std::mem::replace(&mut self.wanted, wanted.clone());
        self.earlier = before.clone();
        let again = std::mem::take(&mut self.again);
        let mut limits = match whole {
            true => wanted.limits.clone(),
            false => wanted.otherwise(&before, &again),
        };
        if !whole {
            self.problems.forget(|about| limits.contains_key(about));
            self.failed.retain(|path, _| !limits.contains_key(path) && wanted.limits.contains_key(path));
        }
        let may_make = self.note_down(&wanted);
        limits.retain(|path, _| !destroyer.removing().iter().any(|r| within(path, r)));
        let verdict = self.judge(&wanted, whole, destroyer);
        let (found, unreadable) = self.read(limits.keys());
        limits.retain(|path, _| !unreadable.contains(path));
        self.standing.extend(found.keys().cloned().chain(unreadable));
        let mut told = Instant::now();
        for step in steps(&limits, &found) {
            let new_pod = matches!(step, Step::Create { .. }) && wanted.pods.contains_key(step.path());
            // A level that is computed without some of its pods is too small for them.
            let unknown = !verdict.withheld.is_empty() || !verdict.foreign.is_empty();
            let unsure = unknown && !wanted.pods.contains_key(step.path());
            match step {
                Step::Create { .. } if new_pod && !may_make => {}
                Step::Set { path, limits, pass: pass @ Pass::Shrink } if unsure => {
                    // What a level is held to does not depend on its pods.
                    let squeeze = self.squeeze_of(&path);
                    let limits = only(&limits, |limit| squeeze.holds(limit));
                    if limits != Limits::default() {
                        self.carry_out(&Step::Set { path, limits, pass }, &found, &wanted);
                    }
                }
                step => self.carry_out(&step, &found, &wanted),
            }
            // Whoever waits for one of many need not wait for the last.
            if new_pod && told.elapsed() >= OFTEN {
                self.tell_places(destroyer);
                told = Instant::now();
            }
        }
        self.earlier = Arc::default();
        self.versions = wanted.pods.iter().map(|(path, kept)| (path.clone(), kept.version)).collect();
        self.written.retain(|path, _| wanted.limits.contains_key(path) || self.held.contains(path));
        if whole {
            self.check_containers(&wanted);
        }
        self.remove_unwanted(verdict, destroyer);
        if whole {
            self.reconciled = Some(SystemTime::now());
            self.sync_notes();
        }
        self.show(destroyer);
    }

    /// Written down before it is made. False if it cannot be: then it is not made.
    fn note_down(&mut self, wanted: &Wanted) -> bool {
        let owned = self.setup.owned.pods();
        let known = |path: &str, uid: &str, origin: &str| {
            owned.get(path).is_some_and(|entry| entry.uid == uid && entry.origin == origin)
        };
        let news = wanted.pods.iter().filter(|(path, kept)| !known(path, &kept.pod.uid, &kept.origin));
        let entry = |uid: &String, origin: &String| Entry { uid: uid.clone(), origin: origin.clone() };
        let news: Vec<_> =
            news.map(|(path, kept)| (path.clone(), entry(&kept.pod.uid, &kept.origin))).collect();
        let Err(error) = self.setup.owned.add(news) else { return true };
        self.problems.add("state", error.to_string());
        for path in wanted.pods.keys().filter(|path| !self.setup.manager.exists(path)) {
            self.failed.insert(path.clone(), error.to_string());
        }
        false
    }

    /// What is, and which cgroups are there and cannot be read: those are not written either.
    fn read<'a>(&mut self, paths: impl Iterator<Item = &'a String>) -> (ByPath, BTreeSet<String>) {
        let (mut found, mut unreadable) = (ByPath::new(), BTreeSet::new());
        for path in paths {
            if !self.setup.manager.exists(path) {
                self.standing.remove(path);
                continue;
            }
            match self.setup.manager.read(path) {
                Ok(limits) => drop(found.insert(path.clone(), limits)),
                Err(error) => {
                    self.failed.insert(path.clone(), error.to_string());
                    self.problems.add(path, error.to_string());
                    unreadable.insert(path.clone());
                }
            }
        }
        (found, unreadable)
    }

    /// What the machine has; what it had when that cannot be read.
    fn measure(&mut self) {
        match Sources::default().capacity(Some(&self.setup.state_dir)) {
            Ok(capacity) => self.capacity = Some(capacity),
            Err(error) => self.problems.add("node", error.to_string()),
        }
    }

    /// Each reconcile, not each change of a pod: `systemCgroups` reads every process of the root cgroup.
    fn place_daemons(&mut self) {
        let due = self.placed.as_ref().is_none_or(|(when, _)| when.elapsed() >= self.setup.reconcile / 2);
        if due {
            let report = self.setup.daemons.ensure();
            for moved in &report.moved {
                let message = format!("{} (pid {}) into {}", moved.name, moved.pid, moved.to.display());
                self.note("ProcessMoved", message);
            }
            for adjusted in &report.adjusted {
                let (from, to) = (adjusted.from, adjusted.to);
                let message =
                    format!("oom_score_adj of {} (pid {}) from {from} to {to}", adjusted.name, adjusted.pid);
                self.note("ScoreAdjusted", message);
            }
            let problems: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
            self.placed = Some((Instant::now(), problems));
        }
        let Self { placed, problems, .. } = self;
        for problem in placed.iter().flat_map(|(_, problems)| problems) {
            if problems.is_news("processes") {
                warn!("{problem}");
            }
            problems.add("processes", problem.clone());
        }
    }

    fn note(&self, reason: &str, message: String) {
        info!("{reason}: {message}");
        let detail = Detail::Hierarchy { reason: reason.into(), message };
        self.setup.journal.append(Timestamp::now(), "", None, detail);
    }

    fn tell(&self, path: &str, wanted: &Wanted, reason: &str, message: String) {
        let detail = Detail::Hierarchy { reason: reason.into(), message };
        self.setup.journal.append(Timestamp::now(), path, pod_ref(wanted, path), detail);
    }
}

/// How often places are told while many cgroups are made.
const OFTEN: Duration = Duration::from_millis(5);

/// Whether `path` is `above` or below it.
fn within(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn pod_ref(wanted: &Wanted, path: &str) -> Option<PodRef> {
    let pod = &wanted.pods.get(path)?.pod;
    Some(PodRef {
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        ..PodRef::default()
    })
}
