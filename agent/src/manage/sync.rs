//! One turn: read what is, decide, write, tell.

mod check;
mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::containers::Namer;
use super::decide::{Known, Verdict, decide};
use super::destroyer::{Destroyer, Outcome};
use super::entry::{entries, only};
use super::keep::{Keep, Kept, Places};
use super::owned::{Entry, Owned};
use super::problems::Problems;
use super::steps::{ByPath, Difference, Pass, Step, differences, steps};
use super::timed::{Operation, timed};
use crate::cgroup::control::{Bound, CgroupName, Driver, Limits, Manager, Presence};
use crate::config::NodeSettings;
use crate::journal::Journal;
use crate::node::Capacity;
use crate::node::daemons::Daemons;
use crate::node::gather::Sources;
use crate::qos::{self, FormulaEvidence, HierarchyFacts, Levels};
use crate::view::{Correction, Detail, HierarchyStatus, PodRef};

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

/// See the module.
pub struct Syncer {
    setup: Setup,
    keep: Option<Keep>,
    /// What was last written, and what a found difference is judged by.
    written: ByPath,
    corrections: u64,
    problems: Problems,
    evidence: FormulaEvidence,
    /// Containers that were there at the last sync: a newer one may still be getting its limits from its runtime.
    containers: BTreeSet<String>,
    /// When the daemons were last looked after, and what was wrong.
    placed: Option<(Instant, Vec<String>)>,
    /// As of the last sync.
    pods: BTreeMap<String, Kept>,
    /// Cgroups that could not be made or written at the last sync.
    failed: BTreeMap<String, String>,
    /// Ours that nobody wants, with the least CPU until their volumes are gone.
    held: BTreeSet<String>,
    places: watch::Sender<Arc<Places>>,
    foreign: BTreeSet<String>,
    reconciled: Option<SystemTime>,
    status: Arc<Mutex<HierarchyStatus>>,
}

/// What should be, by path.
struct Wanted {
    capacity: Capacity,
    /// As they are written.
    told: ByPath,
    /// As they are read afterwards.
    limits: ByPath,
    /// Pods by path.
    pods: BTreeMap<String, Kept>,
}

impl Syncer {
    pub fn new(setup: Setup) -> Self {
        Self {
            setup,
            keep: None,
            written: ByPath::new(),
            corrections: 0,
            problems: Problems::default(),
            evidence: FormulaEvidence::default(),
            containers: BTreeSet::new(),
            placed: None,
            pods: BTreeMap::new(),
            failed: BTreeMap::new(),
            held: BTreeSet::new(),
            places: watch::Sender::default(),
            foreign: BTreeSet::new(),
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

    /// The pods that should be here from now on.
    pub fn keep(&mut self, keep: Keep) {
        self.keep = Some(keep);
    }

    /// Where pods' cgroups are, from the last sync on.
    pub fn places(&self) -> watch::Receiver<Arc<Places>> {
        self.places.subscribe()
    }

    /// Whether cgroups wait for something that nobody tells: the end of their volumes.
    pub fn waits(&self) -> bool {
        !self.held.is_empty()
    }

    /// Reads everything and puts it right.
    pub fn sync(&mut self, destroyer: &mut Destroyer) {
        self.problems.begin();
        self.failed.clear();
        self.place_daemons();
        if let Some(keep) = &self.keep {
            for problem in &keep.problems {
                self.problems.add("manifests", problem.clone());
            }
        }
        let Some(wanted) = self.wanted() else { return self.show(destroyer) };
        // Written down before it is made. What cannot be written down is not made.
        let mine = wanted.pods.iter().map(|(path, kept)| {
            (path.clone(), Entry { uid: kept.pod.uid.clone(), origin: kept.origin.clone() })
        });
        let may_make = match self.setup.owned.add(mine) {
            Ok(()) => true,
            Err(error) => {
                self.problems.add("state", error.to_string());
                for path in wanted.pods.keys().filter(|path| !self.setup.manager.exists(path)) {
                    self.failed.insert(path.clone(), error.to_string());
                }
                false
            }
        };
        let mut limits = wanted.limits.clone();
        limits.retain(|path, _| !destroyer.removing().iter().any(|r| within(path, r)));
        let verdict = self.judge(&wanted, destroyer);
        let (found, unreadable) = self.read(limits.keys());
        limits.retain(|path, _| !unreadable.contains(path));
        for step in steps(&limits, &found) {
            let new_pod = matches!(step, Step::Create { .. }) && wanted.pods.contains_key(step.path());
            // A level that is computed without some of its pods is too small for them.
            let unknown = !verdict.withheld.is_empty() || !verdict.foreign.is_empty();
            let unsure = unknown && !wanted.pods.contains_key(step.path());
            match step {
                Step::Create { .. } if new_pod && !may_make => {}
                Step::Set { pass: Pass::Shrink, .. } if unsure => {}
                step => self.carry_out(&step, &found, &wanted),
            }
        }
        self.written.retain(|path, _| wanted.limits.contains_key(path));
        self.check_containers(&wanted);
        self.remove_unwanted(verdict, destroyer);
        self.pods = wanted.pods;
        self.reconciled = Some(SystemTime::now());
        self.show(destroyer);
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

    /// `None` when the tree cannot be computed, with the problem noted.
    fn wanted(&mut self) -> Option<Wanted> {
        let capacity = match Sources::default().capacity(Some(&self.setup.state_dir)) {
            Ok(capacity) => capacity,
            Err(error) => {
                self.problems.add("node", error.to_string());
                return None;
            }
        };
        let Self { setup, keep, problems, .. } = self;
        let mut pods = BTreeMap::new();
        // Without cgroupsPerQOS pods have no cgroup of their own.
        for kept in keep.iter().flat_map(|k| &k.pods).filter(|_| setup.settings.cgroups_per_qos) {
            match setup.levels.pod(kept.pod.qos, &kept.pod.uid) {
                Ok(name) => drop(pods.insert(setup.manager.path(&name), kept.clone())),
                Err(error) => problems.add("manifests", format!("{}: metadata.uid: {error}", kept.origin)),
            }
        }
        let node = qos::Node { settings: &setup.settings, capacity: &capacity, facts: &setup.facts };
        let mut tree = match qos::tree(pods.values().map(|s| &*s.pod), node) {
            Ok(tree) => tree,
            Err(error) => {
                problems.add("node", error.to_string());
                return None;
            }
        };
        let usage = |name: &CgroupName| setup.manager.usage(&setup.manager.path(name)).ok()?.memory_bytes;
        if setup.settings.qos_reserved_memory_percent.is_some() {
            tree.yield_to(usage);
        }
        let groups = tree.groups.iter();
        let mut told: ByPath =
            groups.map(|(name, group)| (setup.manager.path(name), group.limits.clone())).collect();
        for reserved in &tree.reserved {
            let path = reserved.name(setup.manager.kind()).map(|name| setup.manager.path(&name));
            match path {
                // Somebody else's: gets limits, is never made.
                Ok(path) if setup.manager.exists(&path) => drop(told.insert(path, reserved.limits.clone())),
                Ok(path) => problems.add(&path, format!("{} does not exist any more", reserved.cgroup)),
                Err(error) => problems.add(&reserved.cgroup, error.to_string()),
            }
        }
        let limits = told.iter().map(|(path, l)| (path.clone(), setup.manager.settled(l))).collect();
        Some(Wanted { capacity, told, limits, pods })
    }

    /// What is, and which cgroups are there and cannot be read: those are not written either.
    fn read<'a>(&mut self, paths: impl Iterator<Item = &'a String>) -> (ByPath, BTreeSet<String>) {
        let (mut found, mut unreadable) = (ByPath::new(), BTreeSet::new());
        for path in paths.filter(|path| self.setup.manager.exists(path)) {
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

    fn carry_out(&mut self, step: &Step, found: &ByPath, wanted: &Wanted) {
        let path = step.path().to_owned();
        let manager = self.setup.manager.clone();
        // What is read back is rounded; systemd's properties keep what they are told.
        let told = |limits: &Limits| {
            let those = entries(limits);
            let exact = wanted.told.get(&path).map(|t| only(t, |l| those.iter().any(|(own, _)| *own == l)));
            exact.unwrap_or_else(|| limits.clone())
        };
        let result = match step {
            Step::Create { limits, .. } => {
                debug!(path, "making a cgroup");
                // Half made ones may have processes.
                let limits = self.without_what_kills(&path, limits, found, wanted);
                timed(Operation::Create, || manager.create(&path, &told(&limits))).map(|()| limits)
            }
            Step::Set { limits, .. } => {
                let limits = self.without_what_kills(&path, limits, found, wanted);
                timed(Operation::Update, || manager.set(&path, &told(&limits))).map(|()| limits)
            }
        };
        match result {
            Ok(limits) => {
                if let (Step::Set { .. }, Some(found)) = (step, found.get(&path)) {
                    self.tell_corrections(&path, &limits, found, wanted);
                }
                let written = self.written.entry(path).or_default();
                *written = merged(written, &limits);
            }
            Err(error) => {
                warn!(path, "cannot set limits: {error}");
                self.problems.add(&path, error.to_string());
                self.failed.insert(path, error.to_string());
            }
        }
    }

    /// A memory limit below what is in use would kill at once on v2 (and is refused on v1): it waits, tried again at
    /// every reconcile, until enough is free.
    fn without_what_kills(&mut self, path: &str, limits: &Limits, found: &ByPath, wanted: &Wanted) -> Limits {
        let Some(Bound::At(new)) = limits.memory_max else { return limits.clone() };
        let shrinks = found.get(path).and_then(|f| f.memory_max).is_none_or(|f| f > Bound::At(new));
        let used = self.setup.manager.usage(path).ok().and_then(|u| u.memory_bytes);
        match used {
            Some(used) if shrinks && used > new => {
                let message = format!("a memory limit of {new} bytes waits: {used} are in use");
                if self.problems.is_news(path) {
                    self.tell(path, wanted, "LimitDeferred", message.clone());
                }
                self.problems.add(path, message);
                Limits { memory_max: None, memsw_max: None, ..limits.clone() }
            }
            _ => limits.clone(),
        }
    }

    /// One record for each limit that was not what we had written, or what an earlier agent should have written.
    fn tell_corrections(&mut self, path: &str, set: &Limits, found: &Limits, wanted: &Wanted) {
        let before = self.written.get(path).cloned();
        for difference in differences(set, found) {
            let ours = before
                .as_ref()
                .is_some_and(|b| !differences(b, found).iter().any(|d| d.limit == difference.limit));
            if ours {
                continue;
            }
            self.tell_correction(path, pod_ref(wanted, path), &difference);
        }
    }

    fn tell_correction(&mut self, path: &str, pod: Option<PodRef>, difference: &Difference) {
        self.corrections += 1;
        let limit = difference.limit.file_in(self.setup.manager.layout());
        let (found, written) = (difference.found.to_string(), difference.wanted.to_string());
        info!(path, limit, found, written, "limit put right");
        let detail = Detail::LimitCorrected(Correction { limit, found, written });
        self.setup.journal.append(Timestamp::now(), path, pod, detail);
    }

    /// Sorts the pod cgroups that are there.
    fn judge(&mut self, wanted: &Wanted, destroyer: &Destroyer) -> Verdict {
        let present = self.present();
        let paths: BTreeSet<String> = wanted.pods.keys().cloned().collect();
        let known = Known {
            wanted: &paths,
            owned: self.setup.owned.pods(),
            present: &present,
            removing: destroyer.removing(),
        };
        decide(&known, self.keep.as_ref())
    }

    /// Removes our pod cgroups that nobody wants.
    fn remove_unwanted(&mut self, verdict: Verdict, destroyer: &mut Destroyer) {
        let before = std::mem::take(&mut self.held);
        for path in &verdict.remove {
            let uid = self.setup.owned.pods().get(path).map(|e| e.uid.as_str());
            if uid.is_some_and(|uid| (self.setup.has_volumes)(uid)) {
                self.hold(path, before.contains(path));
                continue;
            }
            info!(path, "removing a pod's cgroup");
            destroyer.remove(path);
        }
        for path in &verdict.forget {
            if let Err(error) = self.setup.owned.remove(path) {
                self.problems.add("state", error.to_string());
            }
        }
        self.foreign = verdict.foreign.into_iter().collect();
    }

    /// As the kubelet's `cleanupOrphanedPodCgroups`: as long as volumes are there, something may still write to them.
    fn hold(&mut self, path: &str, already: bool) {
        if !already {
            info!(path, "kept with the least CPU until the pod's volumes are gone");
            if let Err(error) = timed(Operation::Update, || self.setup.manager.reduce_cpu(path)) {
                self.problems.add(path, error.to_string());
                return;
            }
        }
        self.held.insert(path.to_owned());
    }

    /// Pod cgroups that are there: children of the levels that are named like pods', and our own wherever they are.
    fn present(&mut self) -> BTreeSet<String> {
        let Self { setup, problems, .. } = self;
        let there = |path: &&String| setup.manager.presence(path) != Presence::Nowhere;
        let mut present: BTreeSet<String> = setup.owned.pods().keys().filter(there).cloned().collect();
        let levels = [&setup.levels.kubepods, &setup.levels.burstable, &setup.levels.best_effort];
        for level in levels.map(|level| setup.manager.path(level)) {
            match setup.manager.children(&level) {
                Ok(children) => {
                    let pods = children.iter().filter(|name| is_pod(name));
                    present.extend(pods.map(|name| format!("{level}/{name}")));
                }
                Err(error) => problems.add(&level, error.to_string()),
            }
        }
        present
    }

    /// Deals with the end of a removal. True when another sync is needed at once.
    pub fn destroyed(&mut self, outcome: &Outcome, destroyer: &mut Destroyer) -> bool {
        destroyer.finished(&outcome.path);
        let uid = self.setup.owned.pods().get(&outcome.path).map(|e| e.uid.clone());
        let pod = uid.map(|uid| PodRef { uid, ..PodRef::default() });
        let (reason, message) = match &outcome.result {
            Ok(killed) => {
                self.written.remove(&outcome.path);
                ("PodCgroupDestroyed", format!("gone after {:.0?}, {killed} processes killed", outcome.took))
            }
            Err(why) => ("DestroyFailed", why.clone()),
        };
        info!(path = outcome.path, "{reason}: {message}");
        let detail = Detail::Hierarchy { reason: reason.into(), message: message.clone() };
        self.setup.journal.append(Timestamp::now(), &*outcome.path, pod, detail);
        if outcome.result.is_err() {
            // Tried again with the next reconcile.
            self.problems.add(&outcome.path, message);
            self.show(destroyer);
            return false;
        }
        if let Err(error) = self.setup.owned.remove(&outcome.path) {
            self.problems.add("state", error.to_string());
        }
        // A pod of the same uid may wait for its cgroup, and the status shows what is left.
        true
    }

    fn tell(&self, path: &str, wanted: &Wanted, reason: &str, message: String) {
        let detail = Detail::Hierarchy { reason: reason.into(), message };
        self.setup.journal.append(Timestamp::now(), path, pod_ref(wanted, path), detail);
    }
}

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

/// `over` where it tells something, else `under`.
fn merged(under: &Limits, over: &Limits) -> Limits {
    let mut hugetlb = under.hugetlb.clone();
    hugetlb.extend(over.hugetlb.iter().map(|(size, bound)| (*size, *bound)));
    Limits {
        cpu: over.cpu.or(under.cpu),
        cpu_quota: over.cpu_quota.or(under.cpu_quota),
        cpu_idle: over.cpu_idle.or(under.cpu_idle),
        cpuset_cpus: over.cpuset_cpus.clone().or_else(|| under.cpuset_cpus.clone()),
        memory_max: over.memory_max.or(under.memory_max),
        memory_min: over.memory_min.or(under.memory_min),
        memory_low: over.memory_low.or(under.memory_low),
        memory_high: over.memory_high.or(under.memory_high),
        swap_max: over.swap_max.or(under.swap_max),
        memsw_max: over.memsw_max.or(under.memsw_max),
        oom_group: over.oom_group.or(under.oom_group),
        pids_max: over.pids_max.or(under.pids_max),
        hugetlb,
    }
}

/// Whether a child of a level is named like a pod's cgroup, by either driver.
fn is_pod(name: &str) -> bool {
    name.starts_with("pod") || (name.ends_with(".slice") && name.contains("-pod"))
}
