//! Containers in the pod's sandbox: what starts, what is ended, what waits.

use std::time::Duration;

use jiff::Timestamp;

use super::{Action, KillReason, Plan};
use crate::decide::observed::{ContainerSeen, ContainerStage, Observed, SandboxSeen};
use crate::decide::published::Published;
use crate::decide::resize;
use crate::decide::resize::ResizeMethod;
use crate::decide::{backoff, policy};
use crate::record::{ContainerRecord, Record};
use nodewarden_config::PodSettings;
use nodewarden_manifest::{Container, ContainerKind, Pod};
use nodewarden_model::{PodPhase, Waiting, WaitingReason};

/// How far the init containers are.
enum Init {
    Done,
    /// Those from this one on have not had their turn.
    Busy(usize),
    /// One failed and is not tried again.
    Failed,
}

/// How a container ended the last time, in whatever sandbox.
struct LastEnd {
    exit_code: i32,
    finished: Option<Timestamp>,
    failures: u32,
    /// The agent ended it, to start it again.
    stopped: bool,
    /// Another one starts, by its policy or because of what the agent ended it for.
    again: bool,
}

/// One decision.
pub(super) struct Round<'a> {
    pub(super) pod: &'a Pod,
    pub(super) observed: &'a Observed,
    record: &'a Record,
    published: &'a Published,
    settings: &'a PodSettings,
    now: Timestamp,
    pub(super) plan: Plan,
}

impl<'a> Round<'a> {
    pub(super) fn new(
        pod: &'a Pod,
        observed: &'a Observed,
        record: &'a Record,
        published: &'a Published,
        settings: &'a PodSettings,
        now: Timestamp,
    ) -> Self {
        Self { pod, observed, record, published, settings, now, plan: Plan::default() }
    }

    /// In a ready sandbox.
    pub(super) fn decide(&mut self, sandbox: &SandboxSeen) {
        let here = Here::new(self.observed, sandbox);
        self.clear_strays(&here);
        match self.init(&here) {
            Init::Failed => self.finish(&here, sandbox),
            Init::Done if self.is_over(&here) => self.finish(&here, sandbox),
            Init::Done => {
                let pod = self.pod;
                for container in &pod.init_containers {
                    match container.kind {
                        ContainerKind::Sidecar => self.keep(container, &here),
                        _ => self.kill_late_init(container, &here),
                    }
                }
                for container in &pod.containers {
                    self.keep(container, &here);
                }
            }
            Init::Busy(next) => self.wait_for_init(next),
        }
        self.forget_dead(sandbox);
    }

    /// Containers that wait for those before them.
    pub(super) fn wait_for_init(&mut self, next: usize) {
        let pod = self.pod;
        if pod.init_containers.is_empty() {
            return;
        }
        for container in pod.init_containers.iter().skip(next + 1).chain(&pod.containers) {
            self.plan
                .waiting
                .entry(container.name.clone())
                .or_insert_with(|| Waiting { reason: WaitingReason::PodInitializing, message: String::new() });
        }
    }

    /// The init containers' turn (kubelet `computeInitContainerActions`): the last one that is there shows
    /// how far they are, since ended ones may be forgotten. Sidecars before it are kept running.
    fn init(&mut self, here: &Here<'_>) -> Init {
        let pod = self.pod;
        let all = &pod.init_containers;
        if all.is_empty() || pod.containers.iter().any(|c| here.newest(&c.name).is_some()) {
            return Init::Done;
        }
        let last = all.iter().rposition(|c| here.newest(&c.name).is_some());
        let (reached, passed) = match last {
            None => (0, false),
            Some(at) => match self.turn(&all[at], here) {
                None => return Init::Failed,
                Some(passed) => (at, passed),
            },
        };
        let next = all.get(reached + 1);
        if passed && next.is_none() {
            return Init::Done;
        }
        // A sidecar that had its turn is kept like those before it; an init container that had it is done.
        let sidecars = all[..=reached].iter().filter(|c| c.kind == ContainerKind::Sidecar);
        for container in sidecars.chain(all.get(reached).filter(|c| c.kind == ContainerKind::Init && !passed))
        {
            self.keep(container, here);
        }
        match next.filter(|_| passed) {
            None => Init::Busy(reached),
            Some(next) => {
                self.keep(next, here);
                Init::Busy(reached + 1)
            }
        }
    }

    /// Whether the next one may start; `None` if the pod fails with this one.
    fn turn(&self, container: &Container, here: &Here<'_>) -> Option<bool> {
        let seen = here.newest(&container.name)?;
        let passed = match (container.kind, seen.stage) {
            (ContainerKind::Sidecar, ContainerStage::Running) => {
                self.hook_is_done(seen) && self.published.started(self.pod, seen)
            }
            (ContainerKind::Sidecar, _) => false,
            (_, ContainerStage::Exited) if seen.exit_code == 0 => true,
            (_, ContainerStage::Exited) => {
                return self.starts_again(container).then_some(false);
            }
            _ => false,
        };
        Some(passed)
    }

    /// What one container needs that should run now, or have run.
    fn keep(&mut self, container: &Container, here: &Here<'_>) {
        let name = &container.name;
        let Some(seen) = here.newest(name) else {
            if self.starts_again(container) {
                self.start(container);
            }
            return;
        };
        match seen.stage {
            ContainerStage::Running if !self.hook_is_done(seen) => self.finish_start(seen),
            ContainerStage::Running => match self.published.failed(self.pod, seen) {
                Some(kind) => self.kill_for_probe(container, seen, kind),
                None => self.resize(container, seen),
            },
            ContainerStage::Created => self.finish_start(seen),
            ContainerStage::Exited if self.starts_again(container) => self.start(container),
            ContainerStage::Exited => {}
            ContainerStage::Unknown => {
                let message = "Container is in \"unknown\" state, try killing it before restart".to_owned();
                self.kill(seen, KillReason::Unknown, message);
            }
        }
    }

    fn finish_start(&mut self, seen: &ContainerSeen) {
        self.plan.actions.push(Action::FinishStart { id: seen.id.clone(), name: seen.name.clone() });
    }

    fn resize(&mut self, container: &Container, seen: &ContainerSeen) {
        let Some(told) = self.own(&container.name).and_then(|own| own.told.as_ref()) else { return };
        match resize::method(self.pod, container, told) {
            None => {}
            Some(ResizeMethod::Update) => {
                let (id, name) = (seen.id.clone(), seen.name.clone());
                self.plan.actions.push(Action::UpdateResources { id, name });
            }
            Some(ResizeMethod::Restart) => {
                let message = format!("Container {} resize requires restart, will be restarted", seen.name);
                self.kill(seen, KillReason::Resize, message);
            }
        }
    }

    /// Starts it, or has it wait for its back-off.
    fn start(&mut self, container: &Container) {
        let name = &container.name;
        if let Some(last) = self.last_end(container).filter(|last| !last.stopped) {
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
    fn starts_again(&self, container: &Container) -> bool {
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
    fn last_end(&self, container: &Container) -> Option<LastEnd> {
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
        (seen.stage == ContainerStage::Exited).then(|| LastEnd {
            exit_code: seen.exit_code,
            finished: seen.finished,
            failures: own.failures_with(container.kind, seen, self.settings),
            stopped: own.stopped == seen.id,
            again: again(&seen.id, seen.exit_code),
        })
    }

    /// Whether all is done that the pod is there for.
    fn is_over(&self, here: &Here<'_>) -> bool {
        let done = |container: &Container| match here.newest(&container.name) {
            Some(seen) if seen.stage != ContainerStage::Exited => false,
            _ => !self.starts_again(container),
        };
        self.pod.containers.iter().all(done)
    }

    /// What is left is ended, and then the sandbox stopped.
    fn finish(&mut self, here: &Here<'_>, sandbox: &SandboxSeen) {
        let pod = self.pod;
        let sidecars_last = pod.containers.iter().chain(pod.init_containers.iter().rev());
        let mut all_ended = true;
        for seen in sidecars_last.filter_map(|container| here.newest(&container.name)) {
            if lives(seen) {
                all_ended = false;
                self.kill(seen, KillReason::PodEnds, format!("Stopping container {}", seen.name));
            }
        }
        if all_ended {
            self.plan.finished = Some(self.outcome().unwrap_or(PodPhase::Failed));
        }
        self.plan.actions.push(Action::StopSandbox { id: sandbox.id.clone() });
    }

    /// How the pod ended, if nothing of it is to run any more, by what is known of its containers.
    pub(super) fn outcome(&self) -> Option<PodPhase> {
        let pod = self.pod;
        let end = |container: &Container| Some(self.last_end(container)?.exit_code);
        let failed_init = pod
            .init_containers
            .iter()
            .filter(|c| c.kind == ContainerKind::Init)
            .any(|c| end(c).is_some_and(|code| code != 0 && !policy::restarts(pod, c, code)));
        if failed_init {
            return Some(PodPhase::Failed);
        }
        let over = |c: &Container| self.last_end(c).is_some() && !self.starts_again(c);
        if !pod.containers.iter().all(over) {
            return None;
        }
        let succeeded = pod.containers.iter().all(|c| end(c) == Some(0));
        Some(if succeeded { PodPhase::Succeeded } else { PodPhase::Failed })
    }

    /// Containers whose sandbox the runtime no longer has.
    pub(super) fn clear_orphans(&mut self) {
        let listed = |id: &str| self.observed.sandboxes.iter().any(|s| s.id == id);
        let orphans = self.observed.containers.iter().filter(|c| !listed(&c.sandbox)).collect();
        self.clear(orphans);
    }

    /// Containers that the pod does not have, and older ones of a name that it has.
    fn clear_strays(&mut self, here: &Here<'_>) {
        let pod = self.pod;
        let known = |name: &str| pod.init_containers.iter().chain(&pod.containers).any(|c| c.name == name);
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
            self.plan.actions.push(Action::RemoveContainer { id: seen.id.clone() });
        }
    }

    fn kill_late_init(&mut self, container: &Container, here: &Here<'_>) {
        if let Some(seen) = here.newest(&container.name).filter(|seen| lives(seen)) {
            self.kill(seen, KillReason::NotWanted, format!("Container {} is not wanted", seen.name));
        }
    }

    /// Ended ones of a sandbox beyond those that are kept to be looked at.
    pub(super) fn forget_dead(&mut self, sandbox: &SandboxSeen) {
        let here = Here::new(self.observed, sandbox);
        let pod = self.pod;
        for container in pod.init_containers.iter().chain(&pod.containers) {
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
                self.plan.actions.push(Action::RemoveContainer { id: gone.id.clone() });
            }
        }
    }

    /// Old enough to be forgotten; one that is not counts for no bound (kubelet `evictableContainers`).
    fn is_old(&self, seen: &ContainerSeen) -> bool {
        let least = self.settings.dead_min_age;
        let age = Duration::try_from(self.now.duration_since(seen.created)).unwrap_or_default();
        least.is_zero() || age >= least
    }

    pub(super) fn kill(&mut self, seen: &ContainerSeen, reason: KillReason, message: String) {
        let (id, name) = (seen.id.clone(), seen.name.clone());
        self.plan.actions.push(Action::KillContainer { id, name, reason, message });
    }

    fn hook_is_done(&self, seen: &ContainerSeen) -> bool {
        self.record.hook_is_done(self.pod, seen)
    }

    fn own(&self, name: &str) -> Option<&'a ContainerRecord> {
        self.record.container(name)
    }
}

/// The containers of the sandbox that counts.
struct Here<'a> {
    containers: Vec<&'a ContainerSeen>,
}

impl<'a> Here<'a> {
    fn new(observed: &'a Observed, sandbox: &SandboxSeen) -> Self {
        Self { containers: observed.containers.iter().filter(|c| c.sandbox == sandbox.id).collect() }
    }

    fn newest(&self, name: &str) -> Option<&'a ContainerSeen> {
        self.containers.iter().copied().filter(|c| c.name == name).max_by_key(|c| (c.attempt, c.created))
    }
}

/// The last init container that the runtime has shows how far they are, so one is kept; how a regular one
/// ended is in the record.
fn least(container: &Container) -> usize {
    usize::from(container.kind != ContainerKind::Regular)
}

fn lives(seen: &ContainerSeen) -> bool {
    matches!(seen.stage, ContainerStage::Running | ContainerStage::Unknown)
}
