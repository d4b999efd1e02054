//! A runtime and an agent as they matter to plans, with what must hold at every step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Disturbance, Scenario};
use crate::decide::observed::{ContainerSeen, ContainerStage, Observed, SandboxSeen};
use crate::decide::plan::*;
use crate::decide::policy;
use crate::decide::published::Published;
use crate::fixture::{at, record};
use crate::record::Record;
use nodewarden_config::PodSettings;
use nodewarden_manifest::fixture::pod;
use nodewarden_manifest::{Container, ContainerKind, Pod};

/// A pod's place.
pub(super) struct World {
    pub(super) pod: Arc<Pod>,
    pub(super) record: Record,
    pub(super) observed: Observed,
    pub(super) published: Published,
    codes: BTreeMap<String, Vec<i32>>,
    pub(super) now: i64,
    /// Starts by name.
    pub(super) starts: BTreeMap<String, u32>,
    /// Ends by name that allow for another start.
    pub(super) causes: BTreeMap<String, u32>,
    stopped: i32,
    /// Containers that were ended for a probe.
    pub(super) killed: BTreeSet<String>,
    /// Sidecars that have started once, by sandbox and name.
    pub(super) passed: BTreeSet<(String, String)>,
}

impl World {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let pod = pod(scenario.spec.clone());
        let record = record(&pod);
        Self {
            pod,
            record,
            observed: Observed::default(),
            published: Published::default(),
            codes: scenario.codes.clone(),
            now: 0,
            starts: BTreeMap::new(),
            causes: BTreeMap::new(),
            stopped: scenario.stopped,
            killed: BTreeSet::new(),
            passed: BTreeSet::new(),
        }
    }

    /// Decides as a worker does.
    pub(super) fn plan(&mut self) -> Plan {
        let settings = PodSettings::default();
        self.record.note_ends(&self.pod, &self.observed, &settings);
        let noted = self.record.clone();
        assert!(self.record.note_ends(&self.pod, &self.observed, &settings).is_empty());
        assert_eq!(noted, self.record);
        self.forget_ended();
        let decide = |now| plan(&self.pod, &self.observed, &self.record, &self.published, &settings, at(now));
        let plan = decide(self.now);
        assert_eq!(plan, decide(self.now), "not deterministic");
        plan
    }

    fn find(&self, name: &str) -> &Container {
        let pod = &self.pod;
        pod.init_containers.iter().chain(&pod.containers).find(|c| c.name == name).unwrap()
    }

    fn carry_out(&mut self, action: &Action) {
        self.now += 1;
        match action {
            Action::StopSandbox { id } => {
                for index in 0..self.observed.containers.len() {
                    let seen = &self.observed.containers[index];
                    if seen.sandbox == *id && lives(seen) {
                        self.end(index, 137);
                    }
                }
                for sandbox in self.observed.sandboxes.iter_mut().filter(|s| s.id == *id) {
                    sandbox.ready = false;
                }
            }
            Action::RemoveSandbox { id } => {
                assert!(!self.observed.containers.iter().any(|c| c.sandbox == *id && lives(c)));
                assert!(self.observed.sandboxes.iter().all(|s| s.id != *id || !s.ready));
                self.observed.sandboxes.retain(|s| s.id != *id);
                self.observed.containers.retain(|c| c.sandbox != *id);
            }
            Action::CreateSandbox { attempt } => {
                assert!(self.observed.sandboxes.iter().all(|s| !s.ready), "two sandboxes");
                let sandbox = SandboxSeen {
                    id: format!("s{attempt}").into(),
                    attempt: *attempt,
                    ready: true,
                    created: at(self.now),
                    ips: Vec::new(),
                };
                assert!(self.observed.sandboxes.iter().all(|s| s.id != sandbox.id));
                self.observed.sandboxes.push(sandbox);
            }
            Action::KillContainer { id, name, reason, .. } => {
                if reason.is_by_probe() {
                    self.is_killed_rightly(id);
                }
                self.record.note_kill(name, id, *reason);
                let index = self.observed.containers.iter().position(|c| c.id == *id).unwrap();
                self.end(index, self.stopped);
                // What is ended to be started again is a cause of its own.
                let unknown = *reason == KillReason::Unknown;
                if unknown && !policy::restarts(&self.pod, self.find(name), self.stopped) {
                    *self.causes.entry(name.clone()).or_default() += 1;
                }
            }
            Action::StartContainer { name, attempt } => {
                self.record.note_start(&self.find(name).clone(), *attempt);
                self.create(name, *attempt);
                self.record.note_created(name);
                let last = self.observed.containers.len() - 1;
                self.start(last);
            }
            Action::FinishStart { id, .. } => {
                let index = self.observed.containers.iter().position(|c| c.id == *id).unwrap();
                if self.observed.containers[index].stage == ContainerStage::Created {
                    self.start(index);
                }
                let name = self.observed.containers[index].name.clone();
                self.record.containers.get_or_default(&name).hooked = id.as_str().into();
            }
            Action::UpdateResources { .. } => panic!("nothing was resized"),
            Action::RemoveContainer { id } => {
                let removed = self.observed.containers.iter().find(|c| c.id == *id).unwrap();
                assert!(!lives(removed));
                self.observed.containers.retain(|c| c.id != *id);
            }
        }
    }

    fn create(&mut self, name: &str, attempt: u32) {
        let sandbox = self.observed.sandbox().expect("a container without a sandbox").id.clone();
        let id = format!("{name}.{attempt}");
        assert!(self.observed.containers.iter().all(|c| c.id != id), "{id} twice");
        self.observed.containers.push(ContainerSeen {
            id: id.into(),
            sandbox,
            name: name.into(),
            attempt,
            stage: ContainerStage::Created,
            created: at(self.now),
            started: None,
            finished: None,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            image_id: "".into(),
            reported: true,
        });
    }

    fn start(&mut self, index: usize) {
        let name = self.observed.containers[index].name.clone();
        self.in_turn(&name);
        let twice = self.observed.containers.iter().any(|c| c.name == name && lives(c));
        assert!(!twice, "{name} runs twice");
        let starts = self.starts.entry(name.clone()).or_default();
        *starts += 1;
        let causes = self.causes.get(&name).copied().unwrap_or(0);
        assert!(*starts <= causes + 1, "{name} started {starts} times for {causes} causes");
        let seen = &mut self.observed.containers[index];
        (seen.stage, seen.started) = (ContainerStage::Running, Some(at(self.now)));
    }

    /// Every init container before this one has ended well in this sandbox, every sidecar was started.
    fn in_turn(&self, name: &str) {
        let sandbox = &self.observed.sandbox().unwrap().id;
        let before = self.pod.init_containers.iter().take_while(|c| c.name != name);
        for container in before {
            let of_it = || {
                self.observed.containers.iter().filter(|c| c.name == container.name && c.sandbox == *sandbox)
            };
            let passed = match container.kind {
                ContainerKind::Sidecar => {
                    of_it().next().is_some() && self.was_passed(sandbox, &container.name)
                }
                // Those of a pod that is initialised may have been forgotten.
                _ => {
                    of_it().any(|c| c.stage == ContainerStage::Exited && c.exit_code == 0)
                        || self.initialised()
                }
            };
            assert!(passed, "{name} out of turn: before {}", container.name);
        }
    }

    fn initialised(&self) -> bool {
        let ordinary = |name: &str| self.pod.containers.iter().any(|c| c.name == name);
        self.observed.containers.iter().any(|c| ordinary(&c.name))
    }

    pub(super) fn end(&mut self, index: usize, exit_code: i32) {
        let seen = &mut self.observed.containers[index];
        let (id, name) = (seen.id.clone(), seen.name.clone());
        (seen.stage, seen.exit_code) = (ContainerStage::Exited, exit_code);
        seen.finished = Some(at(self.now));
        // A container that the agent ends for a probe has failed however it exits: also one that exits by
        // itself after the agent noted that it ends it, and before it did.
        let by_probe = self.record.container(&name).is_some_and(|own| own.ended_by_probe(&id));
        let restarts = |code| policy::restarts(&self.pod, self.find(&name), code);
        if restarts(exit_code) || by_probe && restarts(policy::PROBE_KILLED) {
            *self.causes.entry(name).or_default() += 1;
        }
    }

    /// All that runs to an end does.
    fn ends(&mut self) -> bool {
        let mut any = false;
        for index in 0..self.observed.containers.len() {
            let seen = &self.observed.containers[index];
            if seen.stage != ContainerStage::Running {
                continue;
            }
            let init = self.find(&seen.name).kind == ContainerKind::Init;
            let codes = self.codes.get_mut(&seen.name).filter(|codes| !codes.is_empty());
            let code = match codes {
                Some(codes) => codes.remove(0),
                None if init => 0,
                None => continue,
            };
            self.end(index, code);
            any = true;
        }
        any
    }

    pub(super) fn strike(&mut self, disturbance: Disturbance) {
        match disturbance {
            Disturbance::AgentDies(after) => {
                let plan = self.plan();
                let done: Vec<Action> = plan.actions.into_iter().take(after + 1).collect();
                if let Some((last, before)) = done.split_last() {
                    for action in before {
                        self.carry_out(action);
                    }
                    let saved = self.record.clone();
                    self.carry_out(last);
                    // The record is saved before these; what follows them is lost.
                    let noted_before =
                        matches!(last, Action::StartContainer { .. } | Action::KillContainer { .. });
                    if !noted_before {
                        self.record = saved;
                    }
                }
                self.next_agent();
            }
            Disturbance::SandboxDies => {
                for sandbox in &mut self.observed.sandboxes {
                    sandbox.ready = false;
                }
                // Init containers have their turn again in the next one.
                for container in &self.pod.init_containers {
                    *self.causes.entry(container.name.clone()).or_default() += 1;
                }
            }
            Disturbance::Unknown => {
                let running = |c: &&mut ContainerSeen| c.stage == ContainerStage::Running;
                if let Some(seen) = self.observed.containers.iter_mut().find(running) {
                    seen.stage = ContainerStage::Unknown;
                }
            }
            Disturbance::Created => {
                let start = self.plan().actions.into_iter().find_map(|action| match action {
                    Action::StartContainer { name, attempt } => Some((name, attempt)),
                    _ => None,
                });
                if let Some((name, attempt)) = start.filter(|_| self.observed.sandbox().is_some()) {
                    self.record.note_start(&self.find(&name).clone(), attempt);
                    self.create(&name, attempt);
                }
            }
            Disturbance::Probe { which, kind, verdict, then } => self.probe(which, kind, verdict, then),
            Disturbance::KillCutOff => self.kill_is_cut_off(),
            Disturbance::MakesWay { killed, dies } => self.makes_way(killed, dies),
            Disturbance::Ends => {
                self.ends();
            }
            Disturbance::Forgets => {
                // As a runtime's own clean-up: of the ordinary ones, whose end the record has.
                let name = |c: &ContainerSeen| self.pod.containers.iter().any(|o| o.name == c.name);
                let at = self
                    .observed
                    .containers
                    .iter()
                    .position(|c| c.stage == ContainerStage::Exited && name(c));
                let others = self.observed.containers.iter().filter(|c| name(c)).count() > 1;
                if let Some(at) = at.filter(|_| others) {
                    self.plan();
                    self.observed.containers.remove(at);
                }
            }
        }
        self.now += 1;
    }

    /// Until nothing is left to do and nothing more happens.
    pub(super) fn settle(&mut self) -> Plan {
        for _ in 0..500 {
            let plan = self.plan();
            if let Some(phase) = plan.finished {
                assert!(self.observed.containers.iter().all(|c| !lives(c)), "{phase:?}, and something runs");
            }
            for action in &plan.actions {
                self.carry_out(action);
            }
            if !plan.actions.is_empty() {
                continue;
            }
            if let Some(wake) = plan.wake {
                self.now = self.now.max(wake.as_second() - at(0).as_second());
                assert!(!self.plan().actions.is_empty(), "woken for nothing");
            } else if !self.recover() && !self.ends() {
                return plan;
            }
        }
        panic!("never done: {:#?}\n{:#?}", self.plan(), self.observed);
    }

    /// What a settled pod must look like.
    pub(super) fn is_as_wanted(&self, plan: &Plan) {
        assert!(self.observed.sandboxes.len() <= 1);
        self.is_healthy();
        let running = |name: &str| {
            self.observed
                .containers
                .iter()
                .filter(|c| c.name == name && c.stage == ContainerStage::Running)
                .count()
        };
        let sandbox = self.observed.sandbox();
        match plan.finished {
            Some(_) => assert!(sandbox.is_none(), "a finished pod keeps its sandbox"),
            None => {
                assert!(sandbox.is_some());
                let sidecars = self.pod.init_containers.iter().filter(|c| c.kind == ContainerKind::Sidecar);
                assert!(sidecars.chain(&self.pod.containers).any(|c| running(&c.name) == 1));
                for sidecar in self.pod.init_containers.iter().filter(|c| c.kind == ContainerKind::Sidecar) {
                    assert_eq!(running(&sidecar.name), 1, "{}", sidecar.name);
                }
            }
        }
        for container in self.pod.init_containers.iter().chain(&self.pod.containers) {
            let all = self.observed.containers.iter().filter(|c| c.name == container.name);
            assert!(all.filter(|c| c.stage == ContainerStage::Exited).count() <= 1);
        }
    }
}

pub(super) fn lives(seen: &ContainerSeen) -> bool {
    matches!(seen.stage, ContainerStage::Running | ContainerStage::Unknown)
}
