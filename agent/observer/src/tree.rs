//! Walks the cgroup hierarchies, to find cgroups that are older than the agent and changes that no record
//! reported.

use parking_lot::Mutex;
use std::collections::HashSet;

use nodewarden_ebpf_abi::UNTRACKED;
use tracing::warn;

use super::registry::{Happened, Registry};
use nodewarden_machine::cgroup::{Controller, Hierarchy, Layout, walk};
use nodewarden_machine::ebpf::{Moment, SlotPool, Spaces};

/// The spaces of a layout: which hierarchy each controller is on.
pub fn spaces(layout: &Layout) -> Spaces {
    let id = |controller| layout.hierarchy(controller).map(|h| h.id);
    Spaces::new(id(Controller::Memory), id(Controller::Cpu), id(Controller::Io), layout.unified().is_some())
}

/// The hierarchy of each space, in order.
pub fn hierarchies<'a>(layout: &'a Layout, spaces: &Spaces) -> Vec<&'a Hierarchy> {
    spaces.hierarchies.iter().filter_map(|id| layout.hierarchies().iter().find(|h| h.id == *id)).collect()
}

/// What a walk changed.
#[derive(Debug, Default)]
pub struct Walked {
    /// Removals that no record reported.
    pub happened: Vec<Happened>,
    /// Cgroups found that have no slot because all are taken.
    pub untracked: u64,
    /// Space and kernel id of cgroups with a slot that neither the walk nor the registry knows: if that is
    /// still so at the next walk, they were created and removed without a record.
    pub suspects: HashSet<(usize, u64)>,
}

/// Walks every hierarchy and updates the registry. New cgroups get a slot from `pool`. With `after_loss`
/// (records were lost) the slot table is searched too for cgroups that were created and removed without a
/// record; `suspects` are those of the previous walk.
pub fn reconcile(
    hierarchies: &[&Hierarchy],
    registry: &Mutex<Registry>,
    mut pool: Option<&mut SlotPool>,
    now: Moment,
    after_loss: bool,
    suspects: &HashSet<(usize, u64)>,
) -> Walked {
    let mut walked = Walked::default();
    // Read before the walk: cgroups that are created during it are not among them.
    let entries = match &pool {
        Some(pool) if after_loss => pool.entries(),
        _ => Vec::new(),
    };
    let mut all_found = HashSet::new();
    for (space, hierarchy) in hierarchies.iter().enumerate() {
        // Read before the walk: a cgroup that is created during it must not count as removed.
        let before: HashSet<u64> = registry.lock().missing(space, &HashSet::new()).into_iter().collect();
        let mut found = HashSet::new();
        for (path, id) in walk(hierarchy) {
            found.insert(id);
            all_found.insert((space, id));
            if registry.lock().path(space, id).is_some() {
                continue;
            }
            let slot = match pool.as_deref_mut().map(|pool| pool.acquire(space, id)) {
                Some(Ok(slot)) => slot,
                Some(Err(error)) => {
                    warn!(%error, %path, "no counters for this cgroup");
                    UNTRACKED
                }
                None => UNTRACKED,
            };
            if slot == UNTRACKED && pool.is_some() {
                walked.untracked += 1;
            }
            registry.lock().add(space, id, slot, path, now);
        }
        let mut registry = registry.lock();
        for id in registry.missing(space, &found) {
            if before.contains(&id) {
                walked.happened.extend(registry.remove(space, id, now));
                if let Some(pool) = pool.as_deref_mut() {
                    pool.forget(space, id);
                }
            }
        }
    }
    let mut registry = registry.lock();
    for (space, id, slot) in entries {
        if all_found.contains(&(space, id)) || registry.path(space, id).is_some() {
            continue;
        }
        if suspects.contains(&(space, id)) {
            registry.retire_unknown(space, id, slot, now);
            if let Some(pool) = pool.as_deref_mut() {
                pool.forget(space, id);
            }
        } else {
            walked.suspects.insert((space, id));
        }
    }
    walked
}
