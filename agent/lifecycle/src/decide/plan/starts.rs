//! Whether a container starts, by how the one before it ended, and when: the back-off.

use jiff::Timestamp;

use super::Action;
use super::containers::Round;
use crate::decide::observed::ContainerStage;
use crate::decide::{backoff, policy};
use crate::record::ContainerRecord;
use nodewarden_manifest::{Container, ContainerKind};
use nodewarden_model::{Waiting, WaitingReason};

/// How a container ended the last time, in whatever sandbox.
pub(super) struct LastEnd {
    pub(super) exit_code: i32,
    finished: Option<Timestamp>,
    failures: u32,
    /// The agent ended it, to start it again.
    stopped: bool,
    /// Another one starts, by its policy or because of what the agent ended it for.
    again: bool,
}

impl Round<'_> {
    /// Starts it, or has it wait for its back-off, which ends when its image changes (kubelet `GetStableKey`:
    /// the hash of the container is part of the back-off's key).
    pub(super) fn start(&mut self, container: &Container) {
        let name = &container.name;
        if let Some(last) =
            self.last_end(container).filter(|last| !last.stopped && !self.has_another_image(name))
        {
            let wait = backoff::delay(last.failures, self.settings);
            let due = last.finished.map(|finished| backoff::after(finished, wait));
            if let Some(due) = due.filter(|due| *due > self.now) {
                let message =
                    backoff::message(wait, name, &self.pod.namespace, &self.pod.name, &self.pod.uid);
                let waiting = Waiting { reason: WaitingReason::CrashLoopBackOff, message };
                self.plan.waiting.insert(name.clone(), waiting);
                self.plan.wake = Some(self.plan.wake.map_or(due, |wake| wake.min(due)));
                return;
            }
        }
        self.plan
            .actions
            .push(Action::StartContainer { name: name.clone(), attempt: self.next_attempt(container) });
    }

    fn next_attempt(&self, container: &Container) -> u32 {
        let seen = self.observed.newest(&container.name).map(|seen| seen.attempt);
        let noted = self.own(&container.name).and_then(ContainerRecord::newest_attempt);
        seen.max(noted).map_or(0, |newest| newest.saturating_add(1))
    }

    /// Whether one of this name is to be started, given how the newest one ended.
    pub(super) fn starts_again(&self, container: &Container) -> bool {
        match self.last_end(container) {
            None => true,
            // Another sandbox: init containers have their turn again.
            Some(_) if container.kind == ContainerKind::Init && !self.is_here(container) => true,
            Some(last) => last.again,
        }
    }

    fn is_here(&self, container: &Container) -> bool {
        self.observed
            .newest(&container.name)
            .zip(self.observed.newest_sandbox())
            .is_some_and(|(newest, sandbox)| newest.sandbox == sandbox.id)
    }

    /// `None` for a container that never ran, or one that has not ended.
    pub(super) fn last_end(&self, container: &Container) -> Option<LastEnd> {
        let own = self.own(&container.name);
        let again = |id: &str, exit_code| policy::starts_again(self.pod, container, own, id, exit_code);
        let Some(seen) = self.observed.newest(&container.name) else {
            let own = own?;
            let last = own.last.as_ref()?;
            return Some(LastEnd {
                exit_code: last.exit_code,
                finished: last.finished,
                failures: own.failures,
                stopped: own.stopped == last.id,
                again: again(&last.id, last.exit_code),
            });
        };
        let unknown = ContainerRecord::default();
        let own = own.unwrap_or(&unknown);
        // The noted time moves along when the wall clock is set, the runtime's does not.
        let noted = own.last.as_ref().filter(|last| last.id == seen.id);
        (seen.stage == ContainerStage::Exited).then(|| LastEnd {
            exit_code: seen.exit_code,
            finished: noted.map_or(seen.finished, |last| last.finished),
            failures: own.failures_with(container.kind, seen, self.settings),
            stopped: own.stopped == seen.id,
            again: again(&seen.id, seen.exit_code),
        })
    }
}
