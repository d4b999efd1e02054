//! Containers that are not wanted (any more), and ended ones beyond those that are kept.

use std::time::Duration;

use super::containers::{Here, Round, lives};
use super::{Action, KillReason};
use crate::decide::observed::{ContainerSeen, ContainerStage, SandboxSeen};
use nodewarden_manifest::{Container, ContainerKind};

impl Round<'_> {
    /// Containers whose sandbox the runtime no longer has.
    pub(super) fn clear_orphans(&mut self) {
        let listed = |id: &str| self.observed.sandboxes.iter().any(|s| s.id == id);
        let orphans = self.observed.containers.iter().filter(|c| !listed(&c.sandbox)).collect();
        self.clear(orphans);
    }

    /// Containers that the pod does not have, and older ones of a name that it has.
    pub(super) fn clear_strays(&mut self, here: &Here<'_>) {
        let pod = self.pod;
        let known = |name: &str| pod.container(name).is_some();
        let older = |c: &ContainerSeen| here.newest(&c.name).is_none_or(|newest| newest.id != c.id);
        let stray = |c: &&ContainerSeen| !known(&c.name) || (c.stage != ContainerStage::Exited && older(c));
        self.clear(here.containers.iter().copied().filter(stray).collect());
    }

    fn clear(&mut self, mut unwanted: Vec<&ContainerSeen>) {
        unwanted.sort_by_key(|c| (c.created, &c.id));
        for seen in unwanted {
            if lives(seen) {
                self.kill(seen, KillReason::NotWanted, format!("Container {} is not wanted", seen.name));
            }
            self.plan.actions.push(Action::RemoveContainer { id: seen.id.to_string() });
        }
    }

    pub(super) fn kill_late_init(&mut self, container: &Container, here: &Here<'_>) {
        if let Some(seen) = here.newest(&container.name).filter(|seen| lives(seen)) {
            self.kill(seen, KillReason::NotWanted, format!("Container {} is not wanted", seen.name));
        }
    }

    /// Ended ones of a sandbox beyond those that are kept to be looked at.
    pub(super) fn forget_dead(&mut self, sandbox: &SandboxSeen) {
        let here = Here::new(self.observed, sandbox);
        let pod = self.pod;
        for container in pod.declared() {
            let mut dead: Vec<&ContainerSeen> = here
                .containers
                .iter()
                .copied()
                .filter(|c| c.name == container.name && c.stage == ContainerStage::Exited)
                .collect();
            dead.retain(|c| self.is_old(c));
            dead.sort_by_key(|c| std::cmp::Reverse((c.attempt, c.created)));
            let kept = self.settings.dead_kept.map_or(usize::MAX, |most| most as usize).max(least(container));
            for gone in dead.into_iter().skip(kept) {
                self.plan.actions.push(Action::RemoveContainer { id: gone.id.to_string() });
            }
        }
    }

    /// Old enough to be forgotten; one that is not counts for no bound (kubelet `evictableContainers`).
    fn is_old(&self, seen: &ContainerSeen) -> bool {
        let least = self.settings.dead_min_age;
        let age = Duration::try_from(self.now.duration_since(seen.created)).unwrap_or_default();
        least.is_zero() || age >= least
    }
}

/// The last init container that the runtime has shows how far they are, so one is kept; how a regular one
/// ended is in the record.
fn least(container: &Container) -> usize {
    usize::from(container.kind != ContainerKind::Regular)
}
