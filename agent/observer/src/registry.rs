//! The node's cgroups: the directories of all hierarchies joined by path, kept up to date by the kernel
//! programs' records and by walks of the tree. It does not read files, eBPF maps or the clock itself.

mod ids;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use jiff::Timestamp;
use nodewarden_ebpf_abi::{CgroupLifecycleRecord, CgroupRecord, Record, SPACES};

use nodewarden_machine::cgroup::identify;
use nodewarden_machine::ebpf::Moment;
use nodewarden_model::text::until_zero;
use nodewarden_model::{Detail, Identity, Tree};

use ids::Ids;

/// Maximum number of removed cgroups that are kept, independent of the retention time.
const MAX_REMOVED: usize = 4096;

/// A cgroup's directory in one hierarchy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The kernel's id of the directory.
    pub id: u64,
    /// Slot of its counters; `UNTRACKED` (0) if it has none.
    pub slot: u32,
    /// Whether its slot was read for the last time and freed.
    pub released: bool,
    /// When the directory was removed (CLOCK_MONOTONIC, ns).
    pub removed_ns: Option<NonZeroU64>,
}

impl Place {
    /// Whether the directory was removed at that time (CLOCK_MONOTONIC, ns) or later.
    pub(crate) fn is_removed_since(&self, ns: u64) -> bool {
        self.removed_ns.is_some_and(|removed| removed.get() >= ns)
    }

    /// Whether the directory was removed before that time (CLOCK_MONOTONIC, ns).
    pub(crate) fn is_removed_before(&self, ns: u64) -> bool {
        self.removed_ns.is_some_and(|removed| removed.get() < ns)
    }
}

/// One cgroup, over all hierarchies. There are thousands of these values, so they are small.
#[derive(Debug, Clone)]
pub struct Group {
    /// Path below the mounts; the root is `/`.
    pub path: Arc<str>,
    /// The pod and container that follow from the path.
    pub identity: Arc<Identity>,
    /// Distinguishes a cgroup from an earlier one of the same path.
    pub generation: u64,
    /// When it was created or, if that was before the agent's start, found.
    pub created: Timestamp,
    /// When it was removed from the last hierarchy. Boxed: most were not.
    pub removed: Option<Box<Moment>>,
    /// Its directories by space; a removed one stays.
    pub places: [Option<Place>; SPACES],
}

/// A slot whose cgroup is no longer in the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retired {
    pub space: usize,
    /// The kernel's id of the cgroup.
    pub id: u64,
    pub slot: u32,
    /// When it was removed (CLOCK_MONOTONIC, ns).
    pub removed_ns: u64,
}

/// An event for the journal.
#[derive(Debug, Clone, PartialEq)]
pub struct Happened {
    /// When it happened.
    pub time: Timestamp,
    /// The cgroup's; `(cgroup id N)` for one that is not known.
    pub path: Arc<str>,
    /// What the cgroup belongs to, if it is known.
    pub identity: Option<Arc<Identity>>,
    /// What happened.
    pub detail: Detail,
}

/// All cgroups.
#[derive(Debug, Default)]
pub struct Registry {
    members: [Ids; SPACES],
    /// Boxed: a map has room for more entries than it holds.
    groups: BTreeMap<Arc<str>, Box<Group>>,
    /// Paths of the cgroups that were removed from at least one hierarchy, and of some that were made again
    /// since: what has to be done about removals is done without a look at all others.
    leaving: BTreeSet<Arc<str>>,
    retired: Vec<Retired>,
    generations: u64,
    removals: u64,
    changes: u64,
    /// Whether a record named a cgroup that is not known, so that the tree has to be walked.
    unknown: bool,
}

impl Registry {
    /// Every cgroup by path, parents before children.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values().map(|group| &**group)
    }

    /// The cgroup of a path.
    pub(crate) fn group(&self, path: &str) -> Option<&Group> {
        Some(self.groups.get(path)?)
    }

    /// How many cgroups were created and removed so far: while it stays the same, the same ones are there.
    pub fn version(&self) -> [u64; 2] {
        [self.generations, self.removals]
    }

    /// How many directories were made and removed so far: while it stays the same, each cgroup has the slots
    /// that it had.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Number of cgroups with counters now: slots in use in the hierarchy with the most of them.
    pub fn counted(&self) -> usize {
        let in_use = |space: usize| {
            let places = self.groups.values().filter_map(|g| g.places[space]);
            places.filter(|p| p.slot != 0 && p.removed_ns.is_none()).count()
        };
        (0..SPACES).map(in_use).max().unwrap_or(0)
    }

    /// Path of a cgroup by its kernel id.
    pub fn path(&self, space: usize, id: u64) -> Option<&Arc<str>> {
        self.members.get(space)?.get(id)
    }

    /// Returns whether a walk of the tree is needed, and resets that.
    pub fn take_unknown(&mut self) -> bool {
        std::mem::take(&mut self.unknown)
    }

    /// Removes and returns the slots to free: their cgroup was removed before `before` (CLOCK_MONOTONIC, ns),
    /// and no group uses them any more.
    pub(crate) fn take_retired(&mut self, before: u64) -> Vec<Retired> {
        let (ripe, rest) = self.retired.iter().partition(|r| r.removed_ns < before);
        self.retired = rest;
        ripe
    }

    /// Whether slots of removed cgroups are still to be freed.
    pub(crate) fn has_unreleased(&self) -> bool {
        let waits = |place: &Place| place.removed_ns.is_some() && !place.released;
        !self.retired.is_empty() || self.leaving().any(|group| group.places.iter().flatten().any(waits))
    }

    /// The cgroups that were removed from at least one hierarchy, by path; others may be among them.
    pub(crate) fn leaving(&self) -> impl Iterator<Item = &Group> {
        self.leaving.iter().filter_map(|path| self.group(path))
    }

    /// Records that the slot of a directory was freed.
    pub(crate) fn released(&mut self, path: &str, generation: u64, space: usize) {
        if let Some(group) = self.groups.get_mut(path)
            && group.generation == generation
            && let Some(place) = &mut group.places[space]
        {
            place.released = true;
        }
    }

    /// Applies one record of the kernel programs. Returns the event that it is, if any.
    pub fn apply(&mut self, record: &Record, time: Moment) -> Option<Happened> {
        match record {
            Record::Created(r) => self.on_created(r, time),
            Record::Removed(r) => self.remove(r.header.space as usize, r.header.cgroup, time),
            Record::Populated(r) => self.lifecycle(r, time, Detail::CgroupPopulated {}),
            Record::Emptied(r) => self.lifecycle(r, time, Detail::CgroupEmptied {}),
            Record::Moved(r) => {
                let detail = Detail::TaskMoved { pid: r.pid, command: until_zero(&r.command) };
                self.lifecycle(r, time, detail)
            }
            other => {
                let (path, detail) = nodewarden_model::event(other, self)?;
                Some(self.happened(&path, time, detail))
            }
        }
    }

    fn on_created(&mut self, r: &CgroupRecord, time: Moment) -> Option<Happened> {
        let space = r.header.space as usize;
        let Some(parent) = self.members.get(space)?.get(r.parent) else {
            self.unknown = true;
            return None;
        };
        let name = until_zero(&r.name);
        let path: Arc<str> =
            if &**parent == "/" { format!("/{name}").into() } else { format!("{parent}/{name}").into() };
        let new = self.add(space, r.header.cgroup, r.slot, path.clone(), time);
        new.then(|| self.happened(&path, time, Detail::CgroupCreated {}))
    }

    /// Adds a cgroup's directory in a hierarchy; a known one stays as it is. Returns true when its path is
    /// new.
    pub(crate) fn add(&mut self, space: usize, id: u64, slot: u32, path: Arc<str>, time: Moment) -> bool {
        // The path is stored once for all hierarchies.
        let path = self.groups.get(&path).map_or(path, |group| group.path.clone());
        if self.members[space].insert(id, path.clone()).is_some() {
            return false;
        }
        self.changes += 1;
        let place = Place { id, slot, released: false, removed_ns: None };
        if let Some(group) = self.groups.get_mut(&path)
            && group.removed.is_none()
        {
            let old = group.places[space].replace(place);
            self.retire(space, old);
            return false;
        }
        if let Some(old) = self.groups.remove(&path) {
            for (space, place) in old.places.into_iter().enumerate() {
                self.retire(space, place);
            }
        }
        self.generations += 1;
        let mut places = [None; SPACES];
        places[space] = Some(place);
        let identity = Arc::new(identify(&path));
        let group = Group {
            path: path.clone(),
            identity,
            generation: self.generations,
            created: time.wall,
            removed: None,
            places,
        };
        self.groups.insert(path, Box::new(group));
        true
    }

    /// The identities, by path, of the cgroups without names that a container runtime could know.
    pub fn unnamed(&self) -> Vec<(Arc<str>, Arc<Identity>)> {
        let lack = self.groups.iter().filter(|(_, group)| group.identity.lacks_names());
        lack.map(|(path, group)| (path.clone(), group.identity.clone())).collect()
    }

    /// Replaces the identity of a cgroup by the one with its names, if it still has that one.
    pub fn name(&mut self, path: &str, unnamed: &Arc<Identity>, named: Arc<Identity>) {
        if let Some(group) = self.groups.get_mut(path).filter(|group| Arc::ptr_eq(&group.identity, unnamed)) {
            group.identity = named;
        }
    }

    /// Schedules the slot of a cgroup to be freed that was created and removed while records were lost.
    pub(crate) fn retire_unknown(&mut self, space: usize, id: u64, slot: u32, removed: Moment) {
        self.retired.push(Retired { space, id, slot, removed_ns: removed.monotonic_ns });
    }

    /// Takes back what could not be given back yet.
    pub(crate) fn retire_again(&mut self, retired: Retired) {
        self.retired.push(retired);
    }

    fn retire(&mut self, space: usize, place: Option<Place>) {
        if let Some(Place { id, slot, released: false, removed_ns: Some(removed) }) = place
            && slot != 0
        {
            self.retired.push(Retired { space, id, slot, removed_ns: removed.get() });
        }
    }

    /// Removes a cgroup's directory in a hierarchy. Returns an event when it was the cgroup's last one.
    pub(crate) fn remove(&mut self, space: usize, id: u64, time: Moment) -> Option<Happened> {
        let path = self.members.get_mut(space)?.remove(id)?;
        let group = self.groups.get_mut(&path)?;
        let place = group.places[space].as_mut().filter(|p| p.id == id)?;
        // Nothing is removed at 0 ns, the moment of the machine's start.
        place.removed_ns = Some(NonZeroU64::new(time.monotonic_ns).unwrap_or(NonZeroU64::MIN));
        self.leaving.insert(path.clone());
        self.changes += 1;
        if group.places.iter().flatten().any(|p| p.removed_ns.is_none()) {
            return None;
        }
        group.removed = Some(Box::new(time));
        self.removals += 1;
        Some(self.happened(&path, time, Detail::CgroupRemoved {}))
    }

    /// Ids that are known in a hierarchy and are not in `found`, which a walk has found.
    pub(crate) fn missing(&self, space: usize, found: &std::collections::HashSet<u64>) -> Vec<u64> {
        self.members[space].iter().filter(|id| !found.contains(id)).collect()
    }

    /// Drops cgroups that were removed before `before` (CLOCK_MONOTONIC, ns), and the oldest removed ones
    /// beyond a bound.
    pub fn expire(&mut self, before: u64) {
        let removed = |group: &Group| group.removed.as_ref().map(|removed| removed.monotonic_ns);
        let mut times: Vec<u64> = self.leaving().filter_map(removed).collect();
        let mut before = before;
        if times.len() > MAX_REMOVED {
            let surplus = times.len() - MAX_REMOVED;
            let (_, newest_dropped, _) = times.select_nth_unstable(surplus);
            before = before.max(*newest_dropped);
        }
        let is_gone = |group: &&Group| removed(group).is_some_and(|ns| ns < before);
        let gone: Vec<Arc<str>> = self.leaving().filter(is_gone).map(|group| group.path.clone()).collect();
        for path in gone {
            if let Some(group) = self.groups.remove(&path) {
                for (space, place) in group.places.into_iter().enumerate() {
                    self.retire(space, place);
                }
            }
        }
        let Self { leaving, groups, .. } = self;
        let is_leaving =
            |group: &Group| group.places.iter().flatten().any(|place| place.removed_ns.is_some());
        leaving.retain(|path| groups.get(path).is_some_and(|group| is_leaving(group)));
    }

    /// An event of a cgroup's lifecycle, reported once for the joined cgroup: from the first hierarchy that
    /// it is in.
    fn lifecycle(&mut self, r: &CgroupLifecycleRecord, time: Moment, detail: Detail) -> Option<Happened> {
        let space = r.header.space as usize;
        let Some(path) = self.members.get(space)?.get(r.header.cgroup).cloned() else {
            self.unknown = true;
            return None;
        };
        let group = self.groups.get(&path)?;
        let first = group.places.iter().position(|p| p.is_some_and(|p| p.removed_ns.is_none()));
        (first == Some(space)).then(|| self.happened(&path, time, detail))
    }

    fn happened(&self, path: &Arc<str>, time: Moment, detail: Detail) -> Happened {
        let identity = self.groups.get(path).map(|g| g.identity.clone());
        Happened { time: time.wall, path: path.clone(), identity, detail }
    }
}

impl Tree for Registry {
    fn path(&self, space: usize, id: u64) -> Option<Arc<str>> {
        self.members.get(space)?.get(id).cloned()
    }

    fn path_or_id(&mut self, space: usize, id: u64) -> Arc<str> {
        if let Some(path) = Tree::path(self, space, id) {
            return path;
        }
        self.unknown = true;
        format!("(cgroup id {id})").into()
    }

    fn page_bytes(&self) -> u64 {
        nodewarden_machine::page::page_bytes()
    }
}

#[cfg(test)]
mod tests;
