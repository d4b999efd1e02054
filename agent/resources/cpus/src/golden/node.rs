//! A node of a recorded sequence: carries out its steps, and compares with what was recorded.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use nodewarden_manifest::{Container, Pod, QosClass};
use nodewarden_topology::fixture::{equally_far, hint, list, pod, text};
use nodewarden_topology::{AllocateError, Allocated, Hint, Hints, Merger, Provider, admit};
use serde_json::{Map, Value, json};

use super::{assignments, pod_level};
use crate::{CpuManager, StateFile};

#[derive(Clone)]
pub(super) struct Node {
    pub manager: CpuManager,
    /// Why the last pod was rejected.
    pub last_error: Option<String>,
    /// `None`: the recording says from where each container is allocated.
    merger: Option<Merger>,
    pod_level: bool,
    pods: BTreeMap<String, Pod>,
}

/// Notes the calls of the manager, as they are recorded.
struct Noted<'a> {
    manager: &'a mut CpuManager,
    calls: Rc<RefCell<Vec<Value>>>,
}

fn shown(hints: &Hints) -> Value {
    let one = |hints: &Option<Vec<Hint>>| {
        hints
            .as_ref()
            .map_or(Value::Null, |hints| hints.iter().map(ToString::to_string).collect::<Vec<_>>().into())
    };
    if hints.is_empty() {
        return Value::Null;
    }
    Value::Object(hints.iter().map(|(name, hints)| (name.clone(), one(hints))).collect::<Map<_, _>>())
}

impl Noted<'_> {
    fn outcome(&self, mut call: Value, cpus: Option<String>, error: Option<&AllocateError>) {
        if let Some(cpus) = cpus {
            call["cpus"] = json!(cpus);
        }
        if let Some(error) = error {
            call["error"] = json!(error.message);
        }
        self.calls.borrow_mut().push(call);
    }
}

impl Provider for Noted<'_> {
    fn container_hints(&mut self, pod: &Pod, container: &Container) -> Hints {
        let hints = self.manager.hints(pod, container);
        self.calls
            .borrow_mut()
            .push(json!({"call": "container_hints", "container": container.name, "hints": shown(&hints)}));
        hints
    }

    fn pod_hints(&mut self, pod: &Pod) -> Hints {
        let hints = self.manager.pod_hints(pod);
        self.calls.borrow_mut().push(json!({"call": "pod_hints", "hints": shown(&hints)}));
        hints
    }

    fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        affinity: Hint,
    ) -> Result<Allocated, AllocateError> {
        let result = Provider::allocate(self.manager, pod, container, affinity);
        let call = json!({"affinity": affinity.to_string(), "call": "allocate", "container": container.name});
        let cpus = self.manager.assignments().get(&pod.uid, &container.name).map(ToString::to_string);
        self.outcome(call, cpus, result.as_ref().err());
        result
    }

    fn allocate_pod(&mut self, pod: &Pod, affinity: Hint) -> Result<Allocated, AllocateError> {
        let result = Provider::allocate_pod(self.manager, pod, affinity);
        let cpus = self.manager.assignments().pods.get(&pod.uid).map(ToString::to_string);
        self.outcome(
            json!({"affinity": affinity.to_string(), "call": "allocate_pod"}),
            cpus,
            result.as_ref().err(),
        );
        result
    }

    fn release(&mut self, pod_uid: &str, container: &str) {
        self.manager.remove(pod_uid, container);
    }
}

impl Node {
    pub fn new(sequence: &Value, manager: CpuManager) -> Self {
        let recorded = &sequence["topology_manager"];
        let nodes = manager.topology().node_set();
        let merger = (recorded["policy"] != "given").then(|| {
            let scope = recorded["scope"].as_str().unwrap_or("container");
            let settings = nodewarden_topology::Settings::new(
                text(&recorded["policy"]),
                scope,
                &BTreeMap::new(),
                nodes.len(),
                true,
            );
            Merger::new(settings.expect("valid settings"), equally_far(nodes))
        });
        Self { manager, last_error: None, merger, pod_level: pod_level(sequence), pods: BTreeMap::new() }
    }

    /// The same with the kubelet's sizes of units.
    pub fn with_average_sizes(mut self) -> Self {
        let topology = self.manager.topology().clone().with_average_sizes();
        let assignments = self.manager.assignments().clone();
        self.manager = self.manager.with(topology, assignments);
        self
    }

    /// The text of the state file.
    pub fn save(&self) -> String {
        StateFile::of(&self.manager).write(self.pod_level)
    }

    /// Takes the recorded state.
    pub fn assume(&mut self, step: &Value) {
        let topology = self.manager.topology().clone();
        self.manager = self.manager.clone().with(topology, assignments(step));
    }

    /// Carries out a step, and compares what was asked of the manager.
    pub fn step(&mut self, step: &Value) -> Result<(), String> {
        self.last_error = None;
        let uid = step["uid"].as_str().unwrap_or_default().to_owned();
        match text(&step["op"]) {
            "admit" | "readmit" => {
                let pod = pod(&step["pod"]);
                let qos = [(QosClass::Guaranteed, "Guaranteed"), (QosClass::Burstable, "Burstable")];
                let qos =
                    qos.iter().find(|(class, _)| *class == pod.qos).map_or("BestEffort", |(_, name)| name);
                assert_eq!(qos, text(&step["qos"]), "{step}");
                let result = self.admission(&pod, step);
                self.pods.insert(pod.uid.clone(), pod);
                result
            }
            "remove_pod" => {
                let pod = self.pods[&uid].clone();
                pod.init_containers
                    .iter()
                    .chain(&pod.containers)
                    .for_each(|one| self.manager.remove(&uid, &one.name));
                Ok(())
            }
            "remove_container" => {
                self.manager.remove(&uid, text(&step["container"]));
                Ok(())
            }
            "hints" => {
                let pod = self.pods[&uid].clone();
                let calls = Rc::default();
                let mut noted = Noted { manager: &mut self.manager, calls: Rc::clone(&calls) };
                noted.pod_hints(&pod);
                for container in pod.init_containers.iter().chain(&pod.containers) {
                    noted.container_hints(&pod, container);
                }
                same_calls(&calls.borrow(), step)
            }
            other => panic!("unknown step {other}"),
        }
    }

    fn admission(&mut self, pod: &Pod, step: &Value) -> Result<(), String> {
        let calls = Rc::<RefCell<Vec<Value>>>::default();
        let mut noted = Noted { manager: &mut self.manager, calls: Rc::clone(&calls) };
        let result = match &self.merger {
            Some(merger) => {
                if merger.settings().policy == nodewarden_topology::Policy::None {
                    noted.pod_hints(pod);
                }
                admit(merger, &mut [&mut noted], pod, self.pod_level)
                    .map_err(|rejection| (Some(rejection.reason), rejection.message))
            }
            None => given(&mut noted, pod, step).map_err(|error| (error.reason, error.message)),
        };
        self.last_error = result.as_ref().err().map(|(_, message)| message.clone());
        same_calls(&calls.borrow(), step)?;
        if json!(result.is_ok()) != step["admit"] {
            return Err(format!("admitted: {result:?}"));
        }
        if let Err((reason, message)) = result {
            let text = text(&step["message"]);
            if self.merger.is_some() && (reason != step["reason"].as_str() || !message.starts_with(text)) {
                return Err(format!("{reason:?}: {message}"));
            }
        }
        Ok(())
    }

    /// Compares the state after a step.
    pub fn compare(&self, step: &Value) -> Result<(), String> {
        let recorded = assignments(step);
        if *self.manager.assignments() != recorded {
            return Err(format!("{:?} is not {recorded:?}", self.manager.assignments()));
        }
        let shared = self.manager.shared().to_string();
        if shared != text(&step["default_cpus"]) {
            return Err(format!("shared: {shared}"));
        }
        match step["state_file"].as_str() {
            Some(recorded) if recorded != self.save() => Err(format!("state file: {}", self.save())),
            _ => Ok(()),
        }
    }
}

/// Allocates from the recorded nodes; what earlier containers got is released when one fails.
fn given(noted: &mut Noted<'_>, pod: &Pod, step: &Value) -> Result<(), AllocateError> {
    noted.pod_hints(pod);
    let mut given = Vec::new();
    for container in pod.init_containers.iter().chain(&pod.containers) {
        noted.container_hints(pod, container);
        let recorded = list(&step["calls"]).iter();
        let affinity = recorded
            .filter(|call| call["call"] == "allocate" && call["container"] == container.name)
            .find_map(|call| call["affinity"].as_str());
        let affinity = affinity.map_or(Hint { affinity: None, preferred: false }, hint);
        match noted.allocate(pod, container, affinity) {
            Ok(Allocated::Given) => given.push(container.name.clone()),
            Ok(Allocated::Unchanged) => {}
            Err(error) => {
                given.iter().for_each(|name| noted.release(&pod.uid, name));
                return Err(error);
            }
        }
    }
    Ok(())
}

fn same_calls(ours: &[Value], step: &Value) -> Result<(), String> {
    for (at, call) in list(&step["calls"]).iter().enumerate() {
        let own = ours.get(at).unwrap_or(&Value::Null);
        if own != call {
            return Err(format!("call {at}: {own} is not {call}"));
        }
    }
    match ours.get(list(&step["calls"]).len()) {
        Some(more) => Err(format!("one call more: {more}")),
        None => Ok(()),
    }
}
