//! Probes of the simulated containers, as an engine makes them and an agent remembers them.

use super::Then;
use super::world::World;
use crate::decide::observed::{ContainerSeen, ContainerStage};
use crate::decide::plan::Action;
use crate::decide::published::{Published, specs};
use nodewarden_manifest::{ProbeKind, ProbeSpec};
use nodewarden_model::Verdict;
use nodewarden_pods::probes::{ProbeMemory, rules};

impl World {
    /// Containers that an engine would probe.
    fn probed(&self) -> Vec<ContainerSeen> {
        let probed = |seen: &&ContainerSeen| {
            seen.stage == ContainerStage::Running
                && self.record.hook_is_done(&self.pod, seen)
                && !specs(&self.pod, &seen.name).is_empty()
        };
        self.observed.containers.iter().filter(probed).cloned().collect()
    }

    fn memory(&self, seen: &ContainerSeen) -> ProbeMemory {
        let noted = self.record.container(&seen.name).and_then(|own| own.memory(&seen.id));
        noted.cloned().unwrap_or_else(|| ProbeMemory::new(&seen.id))
    }

    pub(super) fn probe(&mut self, which: usize, kind: ProbeKind, verdict: Verdict, then: Then) {
        let probed = self.probed();
        let Some(seen) = (!probed.is_empty()).then(|| probed[which % probed.len()].clone()) else { return };
        let specs = specs(&self.pod, &seen.name);
        let Some(spec) = specs.iter().find(|spec| spec.kind == kind) else { return };
        match then {
            Then::DiesUnsaved => self.next_agent(),
            Then::DiesUnpublished => {
                self.save(&seen, &specs, spec, verdict);
                self.next_agent();
            }
            Then::Published => {
                if self.save(&seen, &specs, spec, verdict) {
                    let memory = self.memory(&seen);
                    self.published.publish(&memory, kind);
                }
            }
        }
    }

    /// Whether the result has changed.
    fn save(
        &mut self,
        seen: &ContainerSeen,
        specs: &[ProbeSpec],
        spec: &ProbeSpec,
        verdict: Verdict,
    ) -> bool {
        let mut memory = self.memory(seen);
        if rules::waits(spec.kind, specs, &memory, false).is_some() {
            return false;
        }
        let changed = rules::take(spec, memory.of_mut(spec.kind), verdict).is_some();
        self.record.containers.get_or_default(&seen.name).note_probes(&memory);
        if rules::started(specs, &memory) {
            self.passed.insert((seen.sandbox.to_string(), seen.name.clone()));
        }
        changed
    }

    /// The next agent knows what is on disk.
    pub(super) fn next_agent(&mut self) {
        let text = serde_json::to_string(&self.record).unwrap();
        self.record = serde_json::from_str(&text).unwrap();
        self.published = Published::of(&self.record);
    }

    pub(super) fn forget_ended(&mut self) {
        let observed = &self.observed;
        let lives = |seen: &ContainerSeen| seen.stage != ContainerStage::Exited;
        self.published.retain(|id| observed.containers.iter().any(|seen| seen.id == id && lives(seen)));
    }

    pub(super) fn kill_is_cut_off(&mut self) {
        let kill = self.plan().actions.into_iter().find_map(|action| match action {
            Action::KillContainer { id, name, reason, .. } if reason.is_by_probe() => {
                Some((id, name, reason))
            }
            _ => None,
        });
        if let Some((id, name, reason)) = kill {
            self.record.note_kill(&name, &id, reason);
            self.next_agent();
            let goes_on =
                |action: &Action| matches!(action, Action::KillContainer { id: own, .. } if *own == id);
            assert!(self.plan().actions.iter().any(goes_on), "the next agent leaves {id} as it is");
        }
    }

    /// It runs, one of its probes has failed, and that did not end it before.
    pub(super) fn is_killed_rightly(&mut self, id: &str) {
        let seen = self.observed.containers.iter().find(|seen| seen.id == id).unwrap();
        assert_eq!(seen.stage, ContainerStage::Running);
        let failed = rules::failed(&specs(&self.pod, &seen.name), &self.memory(seen));
        assert!(failed.is_some(), "{id} has not failed");
        assert!(self.killed.insert(id.to_owned()), "{id} killed twice");
    }

    /// Whether a sidecar has let pass those after it.
    pub(super) fn was_passed(&self, sandbox: &str, name: &str) -> bool {
        let waits = specs(&self.pod, name).iter().any(|spec| spec.kind == ProbeKind::Startup);
        !waits || self.passed.contains(&(sandbox.to_owned(), name.to_owned()))
    }

    /// What has not started or is not ready gets so; false when all is.
    pub(super) fn recover(&mut self) -> bool {
        let mut any = false;
        for (which, seen) in self.probed().iter().enumerate() {
            for spec in specs(&self.pod, &seen.name) {
                let result = self.memory(seen).of(spec.kind).result;
                if spec.kind != ProbeKind::Liveness && result != Some(Verdict::Success) {
                    any = true;
                    self.probe(which, spec.kind, Verdict::Success, Then::Published);
                }
            }
        }
        any
    }

    /// All that runs has started and is ready, and the next agent would say the same.
    pub(super) fn is_healthy(&self) {
        let next = Published::of(&self.record);
        for seen in self.probed() {
            for published in [&self.published, &next] {
                assert_eq!(published.failed(&self.pod, &seen), None);
                assert!(published.started(&self.pod, &seen) && published.ready(&self.pod, &seen));
            }
        }
    }
}
