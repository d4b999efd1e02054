//! The end of a pod that has done its work, or whose init container failed.

use super::containers::{Here, Round, lives};
use super::{Action, KillReason};
use crate::decide::observed::{ContainerStage, SandboxSeen};
use crate::decide::policy;
use nodewarden_manifest::{Container, ContainerKind};
use nodewarden_model::PodPhase;

impl Round<'_> {
    /// Whether all is done that the pod is there for.
    pub(super) fn is_over(&self, here: &Here<'_>) -> bool {
        let done = |container: &Container| match here.newest(&container.name) {
            Some(seen) if seen.stage != ContainerStage::Exited => false,
            _ => !self.starts_again(container),
        };
        self.pod.containers.iter().all(done)
    }

    /// What is left is ended, and then the sandbox stopped.
    pub(super) fn finish(&mut self, here: &Here<'_>, sandbox: &SandboxSeen) {
        let pod = self.pod;
        let ephemeral = pod.ephemeral_containers.iter().map(|own| &own.container);
        let sidecars_last = ephemeral.chain(&pod.containers).chain(pod.init_containers.iter().rev());
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
        self.plan.actions.push(Action::StopSandbox { id: sandbox.id.to_string() });
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
}
