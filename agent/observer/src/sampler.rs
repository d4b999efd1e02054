//! Reads all cgroups: counters of the eBPF programs and figures in the cgroups' files. Also frees the slots
//! of removed cgroups.

use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nodewarden_ebpf_abi::{EARLIER, NODE, UNTRACKED, WaitKey};
use tracing::warn;

use super::counted::Counted;
use super::counters;
use super::files::{Files, GroupFiles, Work};
use super::halves::{in_halves, is_to_split, middle};
use super::idle::WithParents;
use super::kernel_side::KernelSide;
use super::names::Names;
use super::neighbours;
use super::ran::{Ran, Seen};
use super::reading::Reading;
use super::registry::{Group, Place, Registry};
use super::remembered::Remembered;
use super::usages::{ReadUsages, Usages};
use nodewarden_machine::cgroup::{Asked, identify};
use nodewarden_machine::ebpf::MonotonicClock;
use nodewarden_model::{GroupView, Identity, KernelCounters, NeighbourWait, Snapshot, Topic, Usage};

/// How long after its removal a cgroup's slot is read for the last time: the last task may still be on a CPU.
const GRACE: Duration = Duration::from_millis(1500);

/// How often the files of all cgroups are looked at, whether something ran in them or not.
const ALL: Duration = Duration::from_secs(300);

/// A removal counts as something that ran for so long: until everything has been read again.
const RECENTLY: Duration = Duration::from_secs(30);

/// Reads the node; one reading at a time.
pub struct Sampler {
    /// `None` without eBPF.
    pub kernel: Option<KernelSide>,
    files: Files,
    /// Waits for which the kernel had no room, as of the last word in the log about it.
    lost_waits_ns: u64,
    /// By path. Boxed: a map has room for more entries than it holds.
    remembered: BTreeMap<Arc<str>, Box<Remembered>>,
    /// What was counted at the last look for what has run.
    ran: Ran,
    /// Counts the readings at which other cgroups were there than before.
    round: u32,
    /// When [`Sampler::remember`] began last, and when it began to look at all cgroups (CLOCK_MONOTONIC).
    remembered_ns: u64,
    all_read_ns: u64,
}

impl Sampler {
    /// Nothing has been read yet.
    pub fn new(kernel: Option<KernelSide>, files: Files) -> Self {
        Self {
            kernel,
            files,
            lost_waits_ns: 0,
            remembered: BTreeMap::new(),
            ran: Ran::default(),
            round: 0,
            remembered_ns: 0,
            all_read_ns: 0,
        }
    }

    /// Reads everything now. The identities get the names that `names` has for them.
    pub fn sample(&mut self, registry: &Mutex<Registry>, names: &Names) -> Snapshot {
        let groups = groups(registry);
        let time = SystemTime::now();
        let waits = self.waits(registry, &groups, names);
        let none: Arc<[NeighbourWait]> = Arc::default();
        self.enter(&groups);
        let Self { kernel, files: Files { groups: files, machine, usages }, remembered, .. } = self;
        let kernel = kernel.as_ref();
        let view = |(group, own): (&Group, &mut Box<Remembered>)| GroupView {
            path: group.path.clone(),
            identity: names.name_again(&group.identity, &mut own.named),
            created: group.created.into(),
            removed: group.removed.as_ref().map(|removed| SystemTime::from(removed.wall)),
            usage: Usage::default(),
            kernel: KernelCounters::default(),
            waits: waits.get(&group.path).unwrap_or(&none).clone(),
        };
        let mut views = Vec::new();
        let (all, shown) = (&groups, &mut views);
        let prepare = move || {
            let (remembered, shown) = (remembered, shown);
            shown.extend(all.iter().zip(remembered.values_mut()).map(view));
            let (mut all, counted) = begin(kernel, all, remembered, Some(shown));
            let right = all.split_off(middle(&all, |one| &one.group.identity));
            let counted = Arc::new(counted);
            [(all, counted.clone()), (right, counted)]
        };
        in_halves(
            is_to_split(groups.len()),
            || usages.as_mut().and_then(Usages::read),
            prepare,
            |usages, (mut some, counted)| update(&mut some, (*counted).as_ref(), files, usages.as_ref()),
        );
        // Ordered by path.
        let root = views.first().filter(|first| matches!(*first.identity, Identity::Root));
        let machine = machine.read(root.map(|root| &root.usage));
        Snapshot { time, machine, groups: views }
    }

    /// Reads the cgroups in which something ran since the last reading, so that the last figures of one that
    /// is removed are known. Their names are looked up in `names`, which asks for those that are missing in
    /// time. Creates no snapshot, which would take megabytes. Each five minutes all are looked at.
    pub fn remember(&mut self, registry: &Mutex<Registry>, names: &Names) {
        let now = MonotonicClock::now_ns();
        let last = std::mem::replace(&mut self.remembered_ns, now);
        let is_all = now.saturating_sub(self.all_read_ns) >= ALL.as_nanos() as u64;
        let Self { kernel, remembered, ran, .. } = &mut *self;
        let some = kernel.as_ref().filter(|_| !is_all);
        let groups = match some.map(|kernel| that_ran(kernel, remembered, ran, &registry.lock(), last)) {
            Some(groups) => {
                self.read_some(&groups);
                groups
            }
            None => {
                let groups = groups(registry);
                self.enter(&groups);
                let Self { kernel, files, remembered, .. } = self;
                let (mut all, counted) = begin(kernel.as_ref(), &groups, remembered, None);
                // No client waits, so no second CPU is woken for it.
                update(&mut all, counted.as_ref(), &files.groups, None);
                self.all_read_ns = now;
                groups
            }
        };
        for group in &groups {
            names.name(&group.identity);
        }
        if let Some(kernel) = &mut self.kernel
            && let Some(counted) = &mut kernel.neighbours
        {
            let pairs = counted.read();
            let is_gone = |registry: &Registry, key: WaitKey| {
                let space = neighbours::resource(key).and_then(|(_, space)| kernel.spaces.of(space));
                let is_known = |id| {
                    [EARLIER, NODE].contains(&id)
                        || space.is_some_and(|space| registry.path(space, id).is_some())
                };
                !is_known(key.waiting) || !is_known(key.neighbour)
            };
            // No system call is made while what reads the kernel's records waits for the registry.
            let gone: Vec<WaitKey> = {
                let registry = registry.lock();
                pairs.iter().map(|pair| pair.key).filter(|key| is_gone(&registry, *key)).collect()
            };
            counted.forget(&gone);
            if let Some(lost) = counted.lost_ns().filter(|lost| *lost > self.lost_waits_ns) {
                let newly = Duration::from_nanos(lost - self.lost_waits_ns);
                warn!(
                    "waits of {newly:?} are not counted: there are more pairs of cgroups than there is room for"
                );
                self.lost_waits_ns = lost;
            }
        }
    }

    /// The waits of each container by the path of its cgroup, if they are counted.
    fn waits(
        &self,
        registry: &Mutex<Registry>,
        groups: &[Group],
        names: &Names,
    ) -> HashMap<Arc<str>, Arc<[NeighbourWait]>> {
        let Some(kernel) = &self.kernel else { return HashMap::new() };
        let Some(counted) = &kernel.neighbours else { return HashMap::new() };
        let pairs = counted.read();
        let registry = registry.lock();
        let named = |path: &Arc<str>| {
            let group = groups.binary_search_by(|group| group.path.cmp(path)).map(|at| &groups[at].identity);
            names.name(&group.map_or_else(|_| Arc::new(identify(path)), Arc::clone))
        };
        let path_of = |space, id| registry.path(kernel.spaces.of(space)?, id).cloned();
        neighbours::by_container(&pairs, path_of, named)
    }

    /// Makes `groups`, which are ordered by path, the cgroups that are remembered, and begins a reading of
    /// them. Then both have the same paths in the same order.
    fn enter(&mut self, groups: &[Group]) {
        let are_same =
            |(group, path): (&Group, &Arc<str>)| Arc::ptr_eq(&group.path, path) || group.path == *path;
        if self.remembered.len() != groups.len() || !groups.iter().zip(self.remembered.keys()).all(are_same) {
            self.round = self.round.wrapping_add(1);
            for group in groups {
                self.remembered.entry(group.path.clone()).or_default().seen = self.round;
            }
            let round = self.round;
            self.remembered.retain(|_, own| own.seen == round);
        }
        for (group, own) in groups.iter().zip(self.remembered.values_mut()) {
            own.begin(group);
        }
        debug_assert!(groups.iter().map(|group| &group.path).eq(self.remembered.keys()));
    }

    /// Updates the readings of `groups`, and leaves the others as they are.
    fn read_some(&mut self, groups: &[Group]) {
        self.counters(groups);
        let mut buffer = Vec::with_capacity(8192);
        for group in groups.iter().filter(|group| group.removed.is_none()) {
            if let Some(own) = self.remembered.get_mut(&group.path) {
                let Remembered { usage, reader, pids_cgroup, .. } = &mut **own;
                let work = Work { group, idle: false, usage, reader, pids_cgroup, shown: None };
                self.files.groups.read_one(work, &mut buffer);
            }
        }
    }

    /// Updates the counters of `groups`, which are some of all.
    fn counters(&mut self, groups: &[Group]) {
        // Out of the map meanwhile, so that all of them can be changed at the same time.
        let mut taken: Vec<(&Group, Box<Remembered>)> = Vec::with_capacity(groups.len());
        for group in groups {
            let own = self.remembered.entry(group.path.clone()).or_default();
            own.begin(group);
            taken.push((group, std::mem::take(own)));
        }
        if let Some(kernel) = &self.kernel {
            let all = taken.iter_mut();
            let all = all.map(|(group, own)| Reading { group, own, view: None, is_idle: false });
            let mut all: Vec<Reading<'_>> = all.collect();
            let counted = kernel.count(&mut all);
            all.iter_mut().for_each(|one| one.take_counters(Some(&counted)));
        }
        for (group, own) in taken {
            self.remembered.insert(group.path.clone(), own);
        }
    }

    /// Reads the slots of removed cgroups for the last time and frees them, unless the cgroup was removed a
    /// moment ago. `now_ns` is CLOCK_MONOTONIC. Returns whether there are slots that have to wait.
    pub fn release(&mut self, registry: &Mutex<Registry>, now_ns: u64) -> bool {
        let before = now_ns.saturating_sub(GRACE.as_nanos() as u64);
        let is_ripe = |p: &Place| !p.released && p.is_removed_before(before);
        let (ripe, retired) = {
            let mut registry = registry.lock();
            let ripe: Vec<Group> =
                registry.leaving().filter(|g| g.places.iter().flatten().any(is_ripe)).cloned().collect();
            (ripe, registry.take_retired(before))
        };
        if !ripe.is_empty() {
            // They may never have been read before.
            self.counters(&ripe);
        }
        let Some(kernel) = &mut self.kernel else { return false };
        for group in &ripe {
            for (space, place) in group.places.iter().enumerate() {
                let Some(place) = place.filter(is_ripe) else { continue };
                if kernel.give_back(space, place.id, place.slot) {
                    registry.lock().released(&group.path, group.generation, space);
                }
            }
        }
        for retired in retired {
            if !kernel.give_back(retired.space, retired.id, retired.slot) {
                registry.lock().retire_again(retired);
            }
        }
        registry.lock().has_unreleased()
    }

    /// Counts of the cgroups without a slot.
    pub fn untracked_counts(&self) -> u64 {
        let Some(kernel) = &self.kernel else { return 0 };
        let mut counters = KernelCounters::default();
        let raw = kernel.cells.cpu(UNTRACKED);
        counters::update(counters.cpu.get_or_insert_default(), &raw, 0);
        for topic in Topic::ALL {
            topic.read(&*kernel.cells, UNTRACKED, &mut counters);
        }
        Topic::ALL.into_iter().map(|topic| (topic.spec().events)(&counters)).sum()
    }
}

/// The cgroups in which something ran or that are new since the last reading, those without counters of
/// their own, and all above them. `last_ns`: when that reading began.
fn that_ran(
    kernel: &KernelSide,
    remembered: &BTreeMap<Arc<str>, Box<Remembered>>,
    ran: &mut Ran,
    registry: &Registry,
    last_ns: u64,
) -> Vec<Group> {
    let source = kernel.source();
    let running: Vec<u32> = kernel.cells.running().into_iter().map(|(slot, _)| slot).collect();
    let switches = |slot| kernel.cells.switches(slot);
    // They are few as a rule: a look-up of each takes less time than a look at all again.
    let groups = |paths: WithParents<'_>| paths.filter_map(|path| registry.group(path)).cloned().collect();
    if let Some(paths) = ran.since(registry.changes(), &running, switches) {
        return groups(WithParents::of(paths.into_iter()));
    }
    // The record of a removal comes a moment after it.
    let since = last_ns.saturating_sub(GRACE.as_nanos() as u64);
    // Both are in the order of paths.
    let mut remembered = remembered.iter().peekable();
    let mut seen = Vec::new();
    let has_run = |group: &&Group| {
        let path = &group.path;
        while remembered.next_if(|(own, _)| !Arc::ptr_eq(own, path) && *own < path).is_some() {}
        let known = remembered.next_if(|(own, _)| Arc::ptr_eq(own, path) || *own == path);
        let slot = source.cpu_slot(group);
        let now = slot.map(switches);
        if group.removed.is_none() {
            seen.push(Seen { path: path.clone(), slot, switches: now.unwrap_or_default() });
        }
        if removed_since(group, since) {
            return true;
        }
        let Some((_, known)) = known.filter(|(_, own)| own.generation == group.generation) else {
            return true;
        };
        let before = known.counters.switches();
        let is_same = now.is_some() && now == before && slot.is_none_or(|slot| !running.contains(&slot));
        group.removed.is_none() && !is_same
    };
    let groups = groups(WithParents::of(registry.groups().filter(has_run).map(|group| &*group.path)));
    seen.shrink_to_fit();
    ran.set(registry.changes(), seen);
    groups
}

/// Begins a reading of `groups`, which were entered: reads the counters by which it is known where something
/// ran. For a client `views` are those of the groups, which get the readings.
fn begin<'a>(
    kernel: Option<&'a KernelSide>,
    groups: &'a [Group],
    remembered: &'a mut BTreeMap<Arc<str>, Box<Remembered>>,
    views: Option<&'a mut Vec<GroupView>>,
) -> (Vec<Reading<'a>>, Option<Counted<'a>>) {
    let is_for_client = views.is_some();
    // As many as there are groups.
    let mut shown = views.into_iter().flatten();
    let both = groups.iter().zip(remembered.values_mut());
    let mut all: Vec<Reading<'_>> =
        both.map(|(group, own)| Reading { group, own, view: shown.next(), is_idle: false }).collect();
    let counted = kernel.map(|kernel| kernel.count(&mut all));
    let since = MonotonicClock::now_ns().saturating_sub(RECENTLY.as_nanos() as u64);
    let ran = all.iter().filter(|one| one.own.ran || removed_since(one.group, since));
    let mut ran = WithParents::of(ran.map(|one| &*one.group.path));
    // A reading that no client waits for looks at the CPU time itself.
    let is_idle = |path: &str| is_for_client && !ran.has_next(path);
    let idle: Vec<bool> = groups.iter().map(|group| &*group.path).map(is_idle).collect();
    all.iter_mut().zip(idle).for_each(|(one, is_idle)| one.is_idle = is_idle);
    (all, counted)
}

/// Updates the readings of some cgroups.
fn update(
    some: &mut [Reading<'_>],
    counted: Option<&Counted<'_>>,
    files: &GroupFiles,
    usages: Option<&ReadUsages>,
) {
    some.iter_mut().for_each(|one| one.take_counters(counted));
    let asked = if some.iter().any(|one| one.view.is_some()) { Asked::Now } else { Asked::Later };
    files.read(some.iter_mut().filter_map(Reading::work), asked, usages);
}

/// Whether the cgroup was removed from a hierarchy since a time (CLOCK_MONOTONIC): what it used last is
/// counted above it.
fn removed_since(group: &Group, since_ns: u64) -> bool {
    group.places.iter().flatten().any(|place| place.is_removed_since(since_ns))
}

fn groups(registry: &Mutex<Registry>) -> Vec<Group> {
    registry.lock().groups().cloned().collect()
}
