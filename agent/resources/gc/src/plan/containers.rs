//! Which dead containers and sandboxes to remove (`containerGC.evictContainers`, `evictSandboxes`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use nodewarden_model::GcSettings;

/// A container that has ended and still exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadContainer {
    pub id: String,
    pub sandbox: String,
    pub uid: String,
    pub name: String,
    pub attempt: u32,
    pub created: Timestamp,
    /// Its pod is gone or was evicted: the container is removed at once.
    pub pod_gone: bool,
}

/// A sandbox of this agent, ready or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxFact {
    pub id: String,
    pub uid: String,
    pub attempt: u32,
    pub created: Timestamp,
    pub ready: bool,
    /// Ids of all its containers, running or not.
    pub containers: Vec<String>,
    /// Its pod is gone or was evicted: what is left of it is removed at once.
    pub pod_gone: bool,
    /// Its pod still has a manifest and has ended for good: none of its containers runs or will run (kubelet:
    /// `ShouldPodRuntimeBeRemoved`).
    pub pod_ended: bool,
}

/// Ids of what to remove, oldest first: the containers, and then the sandboxes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerPlan {
    pub containers: Vec<String>,
    pub sandboxes: Vec<String>,
}

/// Plans the removal of surplus dead containers and unneeded sandboxes:
///
/// - all dead containers of pods that are gone, of any age;
/// - of the others that are old enough, all but the newest `max_per_pod_container` for each pod and name;
/// - of the rest, all but `max_containers`: first as many are kept for each pod and name as an even division
///   allows, at least one; then the newest of all;
/// - sandboxes that are not ready and have no containers, or only containers that are removed, except for the
///   newest sandbox of a pod that still exists.
///
/// `all_unused` (`DeleteAllUnusedContainers`) treats pods that have ended like those that are gone; for
/// running pods it changes nothing.
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
    let mut groups = groups(rest, settings.min_container_age, now);
    if let Some(most) = settings.max_per_pod_container {
        trim(&mut groups, size(most), &mut go);
    }
    if let Some(most) = settings.max_containers.map(size) {
        bound(&mut groups, most, &mut go);
    }
    go.sort_by_key(|c| (c.created, &c.id));

    let removed: BTreeSet<&str> = go.iter().map(|c| &*c.id).collect();
    ContainerPlan {
        containers: go.iter().map(|c| c.id.clone()).collect(),
        sandboxes: empty_sandboxes(sandboxes, &gone, &removed),
    }
}

/// Dead containers by pod and name, each list newest first.
type Groups<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a DeadContainer>>;

/// Groups the containers that are at least `min_age` old. Younger ones count towards no limit.
fn groups(dead: Vec<&DeadContainer>, min_age: Duration, now: Timestamp) -> Groups<'_> {
    let min_age = SignedDuration::try_from(min_age).unwrap_or(SignedDuration::MAX);
    let mut groups = Groups::new();
    for one in dead {
        // Without a minimum age no container is too young, even if the clock was set back since it was
        // created.
        if min_age.is_zero() || now.duration_since(one.created) >= min_age {
            groups.entry((&one.uid, &one.name)).or_default().push(one);
        }
    }
    for group in groups.values_mut() {
        // Sorted by attempt first: it increases even if the clock is set back.
        group.sort_by(|a, b| (b.attempt, b.created, &b.id).cmp(&(a.attempt, a.created, &a.id)));
    }
    groups
}

/// Keeps the newest `most` of each group.
fn trim<'a>(groups: &mut Groups<'a>, most: usize, go: &mut Vec<&'a DeadContainer>) {
    for group in groups.values_mut() {
        go.extend(group.drain(most.min(group.len())..));
    }
}

/// Keeps `most` of all containers.
fn bound<'a>(groups: &mut Groups<'a>, most: usize, go: &mut Vec<&'a DeadContainer>) {
    let count = |groups: &Groups<'_>| groups.values().map(Vec::len).sum::<usize>();
    if count(groups) <= most {
        return;
    }
    // There are more than `most` containers, so there is a group.
    trim(groups, (most / groups.len()).max(1), go);
    let mut left: Vec<_> = groups.values().flatten().copied().collect();
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

#[cfg(test)]
mod tests;
