//! Containers in the pod's sandbox, in their order: init containers, sidecars, regular ones.

use jiff::Timestamp;

use super::{Action, KillReason, Plan};
use crate::decide::observed::{ContainerSeen, ContainerStage, Observed, SandboxSeen};
use crate::decide::published::Published;
use crate::decide::resize::ResizeMethod;
use crate::decide::{policy, resize};
use crate::record::{ContainerRecord, Record};
use nodewarden_config::PodSettings;
use nodewarden_manifest::{Container, ContainerKind, Pod};
use nodewarden_model::{Waiting, WaitingReason};

/// How far the init containers are.
enum Init {
    Done,
    /// Those from this one on have not had their turn.
    Busy(usize),
    /// One failed and is not tried again.
    Failed,
}

/// One decision.
pub(super) struct Round<'a> {
    pub(super) pod: &'a Pod,
    pub(super) observed: &'a Observed,
    pub(super) record: &'a Record,
    published: &'a Published,
    pub(super) settings: &'a PodSettings,
    pub(super) now: Timestamp,
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
                self.start_ephemeral(&here);
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
            Init::Busy(next) => {
                self.start_ephemeral(&here);
                self.wait_for_init(next);
            }
        }
        self.forget_dead(sandbox);
    }

    /// Ephemeral containers start once, also while init containers run (kubelet `computePodActions`).
    fn start_ephemeral(&mut self, here: &Here<'_>) {
        let pod = self.pod;
        for own in &pod.ephemeral_containers {
            let name = &own.container.name;
            match here.newest(name) {
                Some(seen) if seen.stage == ContainerStage::Created => self.finish_start(seen),
                Some(_) => {}
                None => {
                    if self.own(name).and_then(ContainerRecord::newest_attempt).is_none() {
                        self.start(&own.container);
                    }
                }
            }
        }
    }

    /// Containers that wait for those before them.
    pub(super) fn wait_for_init(&mut self, next: usize) {
        let pod = self.pod;
        if pod.init_containers.is_empty() {
            return;
        }
        for container in pod.init_containers.iter().skip(next + 1).chain(&pod.containers) {
            self.plan.waiting.entry(container.name.clone()).or_insert_with(|| Waiting {
                reason: WaitingReason::PodInitializing,
                message: String::new(),
            });
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
            // Whatever its restart policy is (kubelet `containerChanged`).
            ContainerStage::Running if self.has_another_image(name) => {
                let message = format!("Container {name} definition changed, will be restarted");
                self.kill(seen, KillReason::Changed, message);
            }
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

    /// Whether the spec's image is not the one that the newest of this name was made of.
    pub(super) fn has_another_image(&self, name: &str) -> bool {
        let made_of = self.own(name).and_then(|own| own.image.as_deref());
        made_of.is_some_and(|made_of| {
            let spec = policy::spec_of(self.pod, name);
            spec.and_then(|spec| spec.image.clone()).as_deref() != Some(made_of)
        })
    }

    fn finish_start(&mut self, seen: &ContainerSeen) {
        self.plan.actions.push(Action::FinishStart { id: seen.id.to_string(), name: seen.name.clone() });
    }

    fn resize(&mut self, container: &Container, seen: &ContainerSeen) {
        let Some(given) = self.own(&container.name).and_then(|own| own.given.as_ref()) else { return };
        match resize::method(self.pod, container, given) {
            None => {}
            Some(ResizeMethod::Update) => {
                let (id, name) = (seen.id.to_string(), seen.name.clone());
                self.plan.actions.push(Action::UpdateResources { id, name });
            }
            Some(ResizeMethod::Restart) => {
                let message = format!("Container {} resize requires restart, will be restarted", seen.name);
                self.kill(seen, KillReason::Resize, message);
            }
        }
    }

    pub(super) fn kill(&mut self, seen: &ContainerSeen, reason: KillReason, message: String) {
        let (id, name) = (seen.id.to_string(), seen.name.clone());
        self.plan.actions.push(Action::KillContainer { id, name, reason, message });
    }

    fn hook_is_done(&self, seen: &ContainerSeen) -> bool {
        self.record.hook_is_done(self.pod, seen)
    }

    pub(super) fn own(&self, name: &str) -> Option<&'a ContainerRecord> {
        self.record.container(name)
    }
}

/// The containers of the sandbox that counts.
pub(super) struct Here<'a> {
    pub(super) containers: Vec<&'a ContainerSeen>,
}

impl<'a> Here<'a> {
    pub(super) fn new(observed: &'a Observed, sandbox: &SandboxSeen) -> Self {
        Self { containers: observed.containers.iter().filter(|c| c.sandbox == sandbox.id).collect() }
    }

    pub(super) fn newest(&self, name: &str) -> Option<&'a ContainerSeen> {
        self.containers.iter().copied().filter(|c| c.name == name).max_by_key(|c| (c.attempt, c.created))
    }
}

pub(super) fn lives(seen: &ContainerSeen) -> bool {
    matches!(seen.stage, ContainerStage::Running | ContainerStage::Unknown)
}
