//! One round: what is wanted, and what of it is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use nodewarden_config::Enforcement;
use nodewarden_machine::cgroup::Controller;
use nodewarden_metrics::Own;
use strum::IntoEnumIterator;

use super::gather;
use super::limit_files::LimitFiles;
use super::limits::LimitWatch;
use super::report::{self, Report};
use super::{Deps, SeenPod};
use crate::incident::reason;
use crate::ledger::machine::{Files, Machine};
use crate::ledger::units::UnitFiles;
use crate::ledger::{Ledger, LedgerError, Written};
use crate::policy::{self, Policy};
use crate::protect;
use crate::throttle::{Bounds, CpuFiles, MemoryControl, burst, idle};
use crate::wanted::{Feature, Level, Place, Wanted};

/// How often is looked at what changes seldom: daemons, quotas, limits. Also when pods come and go or are
/// changed.
const SLOW: Duration = Duration::from_secs(5);

/// What is kept between rounds.
pub struct Rounds {
    deps: Deps,
    ledger: Ledger<UnitFiles>,
    memory: MemoryControl,
    limit_files: LimitFiles,
    limits: LimitWatch,
    /// When what changes seldom was looked at, and for which cgroups and versions of their pods.
    slow: Option<(Duration, BTreeSet<(String, usize)>)>,
    /// What was wanted then.
    seldom: Vec<Wanted>,
    /// What would have been written, and was reported.
    audited: BTreeMap<Place, String>,
    /// What is reported once only, until it is over.
    reported: BTreeSet<String>,
}

impl Rounds {
    pub fn new(deps: Deps, ledger: Ledger<UnitFiles>) -> Self {
        Self {
            deps,
            ledger,
            memory: MemoryControl::default(),
            limit_files: LimitFiles::default(),
            limits: LimitWatch::default(),
            slow: None,
            seldom: Vec::new(),
            audited: BTreeMap::new(),
            reported: BTreeSet::new(),
        }
    }

    /// One round at this moment.
    pub fn round(&mut self, now: Duration) {
        let pods = (self.deps.pods)();
        let mut still = BTreeSet::new();
        let policies: Vec<Policy> = pods.iter().map(|seen| self.policy(seen, &mut still)).collect();
        let version = |seen: &SeenPod| (seen.cgroup.clone(), Arc::as_ptr(&seen.pod) as usize);
        let cgroups: BTreeSet<(String, usize)> = pods.iter().map(version).collect();
        let is_due = self
            .slow
            .as_ref()
            .is_none_or(|(last, known)| now.saturating_sub(*last) >= SLOW || *known != cgroups);
        if is_due {
            self.slow = Some((now, cgroups));
            self.seldom = self.wanted_seldom(&pods, &policies);
            self.watch_limits(now, &pods);
            self.ledger.forget_gone();
        }
        let often = self.wanted_of_memory(now, &pods, &policies);
        let feature = |wanted: &&Wanted| self.enforcement(wanted.feature);
        let all = || self.seldom.iter().chain(&often);
        let kept: BTreeSet<Place> = all()
            .filter(|wanted| feature(wanted) == Enforcement::Enforce)
            .map(|wanted| wanted.place.clone())
            .collect();
        let audited: Vec<Wanted> = all().filter(|own| feature(own) == Enforcement::Audit).cloned().collect();
        let written = if is_due { self.seldom.iter().chain(&often) } else { [].iter().chain(&often) };
        let written: Vec<Wanted> =
            written.filter(|own| feature(own) == Enforcement::Enforce).cloned().collect();
        self.withdraw(|place| !kept.contains(place), &mut still);
        self.write(&written, &mut still);
        self.audit(&audited);
        if is_due {
            self.reported.retain(|text| still.contains(text));
        } else {
            self.reported.extend(still);
        }
        self.count();
    }

    /// Puts everything back.
    pub fn end(&mut self) {
        self.withdraw(|_| true, &mut BTreeSet::new());
        self.count();
    }

    /// What the pod asks for. What is wrong with it is reported once.
    fn policy(&mut self, seen: &SeenPod, still: &mut BTreeSet<String>) -> Policy {
        let (policy, problems) = policy::read(&seen.pod.annotations);
        for problem in problems {
            let report = Report {
                pod: seen.pod.uid.clone(),
                container: String::new(),
                reason: reason::ANNOTATION,
                message: problem,
            };
            self.report_once(report, still);
        }
        policy
    }

    fn enforcement(&self, feature: Feature) -> Enforcement {
        let settings = &self.deps.settings;
        match feature {
            Feature::Protection => settings.protection,
            Feature::MemoryHigh => settings.memory_high,
            Feature::CpuIdle => settings.cpu_idle,
            Feature::CpuBurst => settings.cpu_burst,
        }
    }

    fn is_on(&self, feature: Feature) -> bool {
        self.enforcement(feature) != Enforcement::Off
    }

    fn wanted_seldom(&self, pods: &[SeenPod], policies: &[Policy]) -> Vec<Wanted> {
        let (settings, layout) = (&self.deps.settings, &self.deps.layout);
        let mut all = Vec::new();
        if self.is_on(Feature::Protection) {
            let (groups, processes) = gather::daemons(layout, &self.deps.proc, &settings.protected_units);
            let score = settings.protected_oom_score_adj;
            all.extend(protect::wanted(&groups, &processes, score, settings.protected_memory));
            // Those that have what was written: it stays until the daemon ends.
            let held = self.ledger.entries().filter(|entry| entry.feature == Feature::Protection);
            let held = held.filter(|entry| processes.iter().any(|own| is_of(&entry.place, own.pid)));
            all.extend(held.map(protect::kept));
        }
        for (seen, policy) in pods.iter().zip(policies) {
            if self.is_on(Feature::CpuIdle)
                && let Some((directory, version)) = gather::directory(layout, Controller::Cpu, &seen.cgroup)
            {
                all.extend(idle(&seen.pod.uid, seen.qos, policy, &directory, CpuFiles::of(version)));
            }
            if self.is_on(Feature::CpuBurst) {
                all.extend(self.bursts(seen, policy));
            }
        }
        all
    }

    /// The bursts of a pod and its containers: a pod's own quota bounds those of its containers.
    fn bursts(&self, seen: &SeenPod, policy: &Policy) -> Vec<Wanted> {
        let (pod, layout) = (&seen.pod, &self.deps.layout);
        let percent = self.deps.settings.cpu_burst_percent;
        let of = |cgroup: &str, level, resources: &nodewarden_manifest::Resources| {
            let found = gather::with_quota(layout, cgroup, resources)?;
            burst(&pod.uid, level, found.quota, policy, percent, &found.directory, found.files)
        };
        let whole = gather::pod_resources(pod);
        let containers = seen.containers.iter().filter_map(|container| {
            of(&container.cgroup, Level::Container, gather::container_resources(pod, &container.name)?)
        });
        of(&seen.cgroup, Level::Pod, &whole).into_iter().chain(containers).collect()
    }

    fn wanted_of_memory(&mut self, now: Duration, pods: &[SeenPod], policies: &[Policy]) -> Vec<Wanted> {
        if !self.is_on(Feature::MemoryHigh) {
            return Vec::new();
        }
        let Some(available) = gather::available(&self.deps.proc) else { return Vec::new() };
        let bounds = Bounds::new(self.deps.threshold, self.deps.settings.memory_distance);
        let layout = &self.deps.layout;
        let all = self.memory.needs_all(available, bounds);
        let both = pods.iter().zip(policies).filter(|(_, policy)| all || policy.memory_high.is_fixed());
        let read: Vec<_> = both.filter_map(|(seen, policy)| gather::memory(layout, seen, *policy)).collect();
        self.memory.update(now, available, bounds, &read)
    }

    fn watch_limits(&mut self, now: Duration, pods: &[SeenPod]) {
        if self.deps.settings.events == Enforcement::Off {
            return;
        }
        let writes = (self.deps.limit_writes)();
        if self.limit_files.has(pods) && !self.limits.is_due(now, writes.as_deref()) {
            return;
        }
        // In this order: a value that was read has been written before the writes are taken.
        let limits = self.limit_files.read(&self.deps.layout, pods);
        let later = (self.deps.limit_writes)();
        let writes = writes.into_iter().chain(later).flatten().collect();
        for changed in self.limits.update(now, limits, writes) {
            let message = changed.message();
            let (pod, container) = (changed.now.pod, changed.now.container);
            (self.deps.report)(Report { pod, container, reason: reason::LIMIT, message });
        }
    }

    fn withdraw(&mut self, which: impl Fn(&Place) -> bool, still: &mut BTreeSet<String>) {
        match self.ledger.withdraw(|entry| which(&entry.place)) {
            Ok(results) => {
                for (entry, undone) in results {
                    if let Some(report) = report::undone(&entry, &undone) {
                        self.report_once(report, still);
                    }
                }
            }
            Err(error) => self.failed(&error, still),
        }
    }

    fn write(&mut self, wanted: &[Wanted], still: &mut BTreeSet<String>) {
        let results = match self.ledger.write(wanted) {
            Ok(results) => results,
            Err(error) => return self.failed(&error, still),
        };
        for (own, written) in wanted.iter().zip(results) {
            let (path, value) = (own.place.path(), &own.value);
            let path = path.display();
            let report = match written {
                Written::Unchanged => continue,
                Written::Set { before } => {
                    let message =
                        format!("{path} is {value} now, for {}; it was {before}", own.feature.name());
                    (self.deps.report)(Report::of(own, reason::SET, message));
                    continue;
                }
                Written::LeftAlone { found } => {
                    let message = format!(
                        "{path} stays {found:?}, which another program has written: {} does not set it to {value}",
                        own.feature.name()
                    );
                    (reason::LEFT_ALONE, message)
                }
                Written::Refused(refusal) => (reason::FAILED, format!("{path} is not written: {refusal}")),
                Written::Failed(why) => (reason::FAILED, why),
            };
            let (reason, message) = report;
            if self.is_news(&message, still) {
                (self.deps.report)(Report::of(own, reason, message));
            }
        }
    }

    /// Says what would have been written.
    fn audit(&mut self, wanted: &[Wanted]) {
        let places: BTreeSet<&Place> = wanted.iter().map(|own| &own.place).collect();
        self.audited.retain(|place, _| places.contains(place));
        for own in wanted {
            if self.audited.get(&own.place) == Some(&own.value) {
                continue;
            }
            let Ok(Some((found, _))) = Files.read(&own.place) else { continue };
            let is_somebodys = !own.instead_of.is_empty() && !own.instead_of.contains(&&*found);
            if found == own.value || is_somebodys {
                continue;
            }
            self.audited.insert(own.place.clone(), own.value.clone());
            let path = own.place.path();
            let message = format!(
                "{} would be set to {}, for {}; it is {found}",
                path.display(),
                own.value,
                own.feature.name()
            );
            (self.deps.report)(Report::of(own, reason::WOULD_SET, message));
        }
    }

    fn failed(&mut self, error: &LedgerError, still: &mut BTreeSet<String>) {
        let report = Report {
            pod: String::new(),
            container: String::new(),
            reason: reason::FAILED,
            message: format!("nothing is written: {error}"),
        };
        self.report_once(report, still);
    }

    fn report_once(&mut self, report: Report, still: &mut BTreeSet<String>) {
        if self.is_news(&format!("{} {}", report.pod, report.message), still) {
            (self.deps.report)(report);
        }
    }

    fn is_news(&mut self, text: &str, still: &mut BTreeSet<String>) -> bool {
        still.insert(text.to_owned());
        self.reported.insert(text.to_owned())
    }

    /// How many values are written now.
    fn count(&self) {
        for feature in Feature::iter().filter(|feature| self.is_on(*feature)) {
            let held = self.ledger.entries().filter(|entry| entry.feature == feature).count();
            ::metrics::gauge!(Own::AugmentValues.name(), "feature" => feature.name()).set(held as f64);
        }
    }
}

fn is_of(place: &Place, pid: u32) -> bool {
    place.file == "oom_score_adj" && place.directory.file_name().is_some_and(|name| name == &*pid.to_string())
}
