//! Which dead containers and sandboxes go (`containerGC.evictContainers`, `evictSandboxes`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::DeadContainer;
use nodewarden_model::GcSettings;

/// A sandbox of this agent's, ready or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxFact {
    pub id: String,
    pub uid: String,
    pub attempt: u32,
    pub created: Timestamp,
    pub ready: bool,
    /// Ids of all containers in it, running or not.
    pub containers: Vec<String>,
    /// Its pod is gone, or was evicted: what is left of it goes at once.
    pub pod_gone: bool,
    /// Its pod is still wanted and has ended for good: none of its containers runs or will (kubelet:
    /// `ShouldPodRuntimeBeRemoved`).
    pub pod_ended: bool,
}

/// What goes, oldest first: the containers, and then the sandboxes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerPlan {
    pub containers: Vec<String>,
    pub sandboxes: Vec<String>,
}

/// Dead containers that are too many, and sandboxes that nothing needs:
///
/// - of pods that are gone every dead container goes, of any age;
/// - of the others that are old enough the newest `max_per_pod_container` stay for each pod and name;
/// - of what is then left `max_containers` stay: first as many for each pod and name as an even division gives, at least
///   one; then the newest of all;
/// - sandboxes that are not ready and have no container, or only such that go, are removed, except for the newest of a pod
///   that is still there.
///
/// `all_unused` (`DeleteAllUnusedContainers`) treats pods that have ended like those that are gone; of running ones it
/// removes no more than otherwise.
pub fn containers(
    dead: &[DeadContainer],
    sandboxes: &[SandboxFact],
    settings: &GcSettings,
    now: Timestamp,
    all_unused: bool,
) -> ContainerPlan {
    let released = |s: &&SandboxFact| s.pod_gone || (all_unused && s.pod_ended);
    let mut gone: BTreeSet<&str> = sandboxes.iter().filter(released).map(|s| &*s.uid).collect();
    gone.extend(dead.iter().filter(|c| c.pod_gone).map(|c| &*c.uid));

    let (mut go, rest): (Vec<_>, Vec<_>) = dead.iter().partition(|c| gone.contains(&*c.uid));
    let mut units = units(rest, settings.min_container_age, now);
    if let Some(most) = settings.max_per_pod_container {
        trim(&mut units, size(most), &mut go);
    }
    if let Some(most) = settings.max_containers.map(size) {
        bound(&mut units, most, &mut go);
    }
    go.sort_by_key(|c| (c.created, &c.id));

    let removed: BTreeSet<&str> = go.iter().map(|c| &*c.id).collect();
    ContainerPlan {
        containers: go.iter().map(|c| c.id.clone()).collect(),
        sandboxes: empty_sandboxes(sandboxes, &gone, &removed),
    }
}

/// Dead containers by pod and name, each list newest first.
type Units<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a DeadContainer>>;

/// Those that are at least `min_age` old. A younger one counts for no bound.
fn units(dead: Vec<&DeadContainer>, min_age: Duration, now: Timestamp) -> Units<'_> {
    let min_age = SignedDuration::try_from(min_age).unwrap_or(SignedDuration::MAX);
    let mut units = Units::new();
    for one in dead {
        // Without a minimum age nothing is too young, also what a clock that was set back makes younger than now.
        if min_age.is_zero() || now.duration_since(one.created) >= min_age {
            units.entry((&one.uid, &one.name)).or_default().push(one);
        }
    }
    for unit in units.values_mut() {
        // The attempt first: it goes on where a clock may jump.
        unit.sort_by(|a, b| (b.attempt, b.created, &b.id).cmp(&(a.attempt, a.created, &a.id)));
    }
    units
}

/// Leaves the newest `most` of each.
fn trim<'a>(units: &mut Units<'a>, most: usize, go: &mut Vec<&'a DeadContainer>) {
    for unit in units.values_mut() {
        go.extend(unit.drain(most.min(unit.len())..));
    }
}

/// Leaves `most` of all.
fn bound<'a>(units: &mut Units<'a>, most: usize, go: &mut Vec<&'a DeadContainer>) {
    let count = |units: &Units<'_>| units.values().map(Vec::len).sum::<usize>();
    if count(units) <= most {
        return;
    }
    // There are more than `most`, so there is a unit.
    trim(units, (most / units.len()).max(1), go);
    let mut left: Vec<_> = units.values().flatten().copied().collect();
    left.sort_by(|a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
    go.extend(left.drain(most.min(left.len())..));
}

/// Sandboxes to remove, oldest first.
fn empty_sandboxes(
    sandboxes: &[SandboxFact],
    gone: &BTreeSet<&str>,
    removed: &BTreeSet<&str>,
) -> Vec<String> {
    let age = |s: &SandboxFact| (s.attempt, s.created, s.id.clone());
    let mut newest: BTreeMap<&str, &SandboxFact> = BTreeMap::new();
    for sandbox in sandboxes {
        let known = newest.entry(&sandbox.uid).or_insert(sandbox);
        if age(sandbox) > age(known) {
            *known = sandbox;
        }
    }
    let mut go: Vec<&SandboxFact> = sandboxes
        .iter()
        .filter(|s| !s.ready && s.containers.iter().all(|c| removed.contains(&**c)))
        .filter(|s| gone.contains(&*s.uid) || newest.get(&*s.uid).is_some_and(|n| n.id != s.id))
        .collect();
    go.sort_by_key(|s| (s.created, &s.id));
    go.into_iter().map(|s| s.id.clone()).collect()
}

fn size(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
