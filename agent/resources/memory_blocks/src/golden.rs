//! Compares the policy with what a kubelet 1.36 did in sequences of admissions, removals and restarts
//! (`resource_managers/memory_policy.json`).

mod files;

use std::collections::BTreeMap;

use nodewarden_testing::golden::are_our_own;
use nodewarden_topology::fixture::{Node, list, load, number, text};
use nodewarden_topology::{HugePages, NodeSet, NumaNode};
use serde_json::{Value, json};

use crate::{
    Block, Blocks, MachineState, MemoryManager, NodeState, Reserved, Settings, SettingsError, StateFile,
};

pub(super) const FILE: &str = "memory_policy.json";

/// Why a step is not as the kubelet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// Fault 13: no node has room, and the kubelet's topology manager does not see it. Both reject the pod,
    /// ours as what cannot be aligned.
    NoRoom,
    /// The recorder itself found the kubelet's state after the step wrong (faults 11 and 12).
    WrongState,
    /// Fault 12: the kubelet allocates for a running pod again, from other nodes or in vain. Ours keeps what
    /// it has.
    RunningPod,
    /// Fault 14: the kubelet panics at huge pages of a size that the machine does not have. Ours rejects the
    /// pod.
    NoSuchType,
    /// Fault 15: more is reserved than the node has. Ours does not accept such settings.
    TooMuchReserved,
    /// Fault 18: a container that asks for nothing is rejected by the kubelet.
    NothingRequested,
    /// The kubelet does not start, or not always, after other reserved memory or a wrong state of its own.
    NotStarted,
}

/// Every step is the kubelet's, but for its faults. After such a step ours is put into the kubelet's state,
/// so that the next step is compared again.
#[test]
fn sequences_are_the_kubelets() {
    let Some(recorded) = load(FILE) else { return };
    let (mut equal, mut excepted) = (0, BTreeMap::<Reason, usize>::new());
    for sequence in list(&recorded["sequences"]) {
        let steps = list(&sequence["steps"]);
        let nodes = numa_nodes(&sequence["machine"]);
        let made = settings(sequence, &sequence["machine"]["reserved_bytes"], &nodes);
        if sequence["start_error"].is_object() {
            let error = made.expect_err("the kubelet does not start").to_string();
            assert_eq!(error, text(&sequence["start_error"]["error"]), "sequence {}", sequence["id"]);
            equal += 1;
            continue;
        }
        let made = match made {
            Err(SettingsError::MoreThanThere { .. }) => {
                assert!(
                    steps.iter().any(|step| step["kubelet_faults"].to_string().contains("above the total"))
                );
                *excepted.entry(Reason::TooMuchReserved).or_default() += steps.len();
                continue;
            }
            made => made.unwrap_or_else(|error| panic!("sequence {}: {error}", sequence["id"])),
        };
        let manager = MemoryManager::new(&nodes, made).unwrap();
        let all = manager.machine().nodes();
        let mut node = Node::new(sequence, manager, all, shown);
        assert_eq!(
            start_state(&node.manager),
            sequence["start_machine_state"],
            "sequence {}",
            sequence["id"]
        );
        for (at, step) in steps.iter().enumerate() {
            let place = format!("sequence {} step {at}: {}", sequence["id"], step["op"]);
            let before = node.clone();
            let after = state_after(steps, at);
            let result = run(&mut node, sequence, &nodes, step, after);
            assert!(
                !before.manager.is_consistent() || node.manager.is_consistent(),
                "{place}: {:?}",
                node.manager
            );
            let Err(difference) = result else {
                equal += 1;
                continue;
            };
            let reason =
                explain(&before, step, &node).unwrap_or_else(|| panic!("{place}: {difference}\n{step}"));
            *excepted.entry(reason).or_default() += 1;
            if !step["machine_state"].is_null() {
                let state = machine(step, &node.manager);
                node.manager = node.manager.clone().with(state, blocks(step));
            }
        }
    }
    let total: usize = excepted.values().sum();
    println!("steps: {equal} equal, {total} excepted: {excepted:?}");
    assert!(!are_our_own() || (equal, total) == COUNTS, "{equal} equal, {excepted:?}");
}

/// Steps (and failed starts) that are equal, and those that are excepted, in the project's own recordings.
const COUNTS: (usize, usize) = (466, 60);

/// The machine of a sequence.
fn numa_nodes(machine: &Value) -> Vec<NumaNode> {
    let pages = |pages: &Value| HugePages {
        size_kib: number(&pages["page_size_kib"]),
        count: number(&pages["pages"]),
    };
    let node = |node: &Value| NumaNode {
        id: number(&node["numa"]) as u32,
        memory_bytes: number(&node["memory_bytes"]),
        huge_pages: list(&node["hugepages"]).iter().map(pages).collect(),
        distances: Vec::new(),
    };
    list(&machine["numa_nodes"]).iter().map(node).collect()
}

fn settings(sequence: &Value, reserved: &Value, nodes: &[NumaNode]) -> Result<Settings, SettingsError> {
    let settings = Settings::fixed(nodes, reserved_bytes(reserved))?;
    Ok(Settings { pod_level: pod_level(sequence), ..settings })
}

pub(super) fn reserved_bytes(recorded: &Value) -> Reserved {
    let types = |value: &Value| {
        value.as_object().into_iter().flatten().map(|(name, bytes)| (name.clone(), number(bytes))).collect()
    };
    let nodes = recorded.as_object().into_iter().flatten();
    nodes.map(|(node, value)| (node.parse().expect("a node's number"), types(value))).collect()
}

pub(super) fn pod_level(sequence: &Value) -> bool {
    sequence["feature_gates"]["PodLevelResourceManagers"] == true
}

fn start_state(manager: &MemoryManager) -> Value {
    let written = StateFile::of(manager).write(false);
    serde_json::from_str::<Value>(&written).expect("JSON")["machineState"].clone()
}

/// The step whose state ours has to have. A pod that is rejected keeps nothing here; in the kubelet the next
/// clean-up takes it back (fault 9).
fn state_after(steps: &[Value], at: usize) -> &Value {
    match steps.get(at + 1) {
        Some(next)
            if steps[at]["op"] == "admit" && steps[at]["admit"] == false && next["why"].is_string() =>
        {
            next
        }
        _ => &steps[at],
    }
}

/// Runs a step and compares.
fn run(
    node: &mut Node<MemoryManager>,
    sequence: &Value,
    nodes: &[NumaNode],
    step: &Value,
    after: &Value,
) -> Result<(), String> {
    if step["op"] == "restart" {
        let reserved = match &step["reserved_bytes"] {
            Value::Null => node.manager.settings().reserved.clone(),
            changed => reserved_bytes(changed),
        };
        let made = Settings { reserved, ..node.manager.settings().clone() };
        let saved = StateFile::read(&StateFile::of(&node.manager).write(node.pod_level))
            .map_err(|error| error.to_string())?;
        let restored = MemoryManager::restore(nodes, made, &saved.machine, &saved.blocks);
        let (manager, findings) = restored.map_err(|error| error.to_string())?;
        node.manager = manager;
        let pods = &sequence["feature_gates"];
        assert_eq!(node.manager.blocks(), &saved.blocks, "what runs keeps its memory: {step} {pods}");
        if step["machine_state"].is_null() {
            return Err(format!("{step} {findings:?}"));
        }
        if !findings.is_empty() {
            return Err(format!("{findings:?}"));
        }
    } else {
        node.step(step)?;
    }
    compare(node, after)
}

/// Why a step is not as the kubelet's; `None` if it is a fault of ours.
fn explain(before: &Node<MemoryManager>, step: &Value, ours: &Node<MemoryManager>) -> Option<Reason> {
    if step["start_error"].is_object() || step["start_error_sometimes"].is_array() {
        return Some(Reason::NotStarted);
    }
    let unchanged = ours.manager.blocks() == before.manager.blocks();
    let rejected = ours.last_error.is_some() && unchanged;
    if step["op"] == "readmit" && unchanged && ours.last_error.is_none() && ours.pod_level {
        return Some(Reason::RunningPod);
    }
    if step["panic"].is_string() {
        return rejected.then_some(Reason::NoSuchType);
    }
    let nowhere = list(&step["calls"]).iter().any(|call| call["hints"] == json!({}));
    if step["admit"] == false && rejected && nowhere {
        return Some(Reason::NoRoom);
    }
    let default_fails =
        step["message"].as_str().is_some_and(|text| text.contains("the default NUMA affinity"));
    if step["admit"] == false && default_fails && ours.last_error.is_none() && ours.pod_level {
        return Some(Reason::NothingRequested);
    }
    (!list(&step["kubelet_faults"]).is_empty()).then_some(Reason::WrongState)
}

fn block(recorded: &Value) -> Block {
    Block {
        nodes: list(&recorded["numaAffinity"]).iter().map(|node| number(node) as u32).collect(),
        resource: text(&recorded["type"]).to_owned(),
        size: number(&recorded["size"]),
    }
}

/// The recorded blocks of a step.
pub(super) fn blocks(step: &Value) -> Blocks {
    let all = |value: &Value| list(value).iter().map(block).collect::<Vec<_>>();
    let by_name = |value: &Value| -> BTreeMap<String, Vec<Block>> {
        value.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), all(value))).collect()
    };
    let pods = step["blocks"].as_object().into_iter().flatten();
    Blocks {
        containers: pods.map(|(uid, value)| (uid.clone(), by_name(value))).collect(),
        pods: by_name(&step["pod_blocks"]),
    }
}

/// The recorded machine of a step, whose sizes are those of `manager`.
pub(super) fn machine(step: &Value, manager: &MemoryManager) -> MachineState {
    let one = |(number_of, node): (&u32, &NodeState)| {
        let own = &step["machine_state"][number_of.to_string()];
        let mut node = node.clone();
        node.assignments = own["assignments"].as_i64().expect("a number");
        node.group = list(&own["cells"]).iter().map(|cell| number(cell) as u32).collect::<NodeSet>();
        for (resource, table) in &mut node.memory {
            table.free = number(&own["memory"][resource]["free"]);
            table.reserved = number(&own["memory"][resource]["reserved"]);
        }
        (*number_of, node)
    };
    MachineState(manager.machine().0.iter().map(one).collect())
}

/// The blocks of a container or pod, as they are recorded with a call.
fn shown(manager: &MemoryManager, uid: &str, container: Option<&str>) -> Option<(&'static str, Value)> {
    let own = match container {
        Some(container) => manager.blocks().get(uid, container),
        None => manager.blocks().pods.get(uid),
    };
    let one = |block: &Block| {
        let nodes: Vec<u32> = block.nodes.iter().collect();
        json!({"numaAffinity": nodes, "type": block.resource, "size": block.size})
    };
    own.map(|blocks| ("blocks", blocks.iter().map(one).collect::<Vec<_>>().into()))
}

/// Compares the state after a step.
fn compare(node: &Node<MemoryManager>, step: &Value) -> Result<(), String> {
    let recorded = blocks(step);
    if *node.manager.blocks() != recorded {
        return Err(format!("{:?} is not {recorded:?}", node.manager.blocks()));
    }
    let recorded = machine(step, &node.manager);
    if *node.manager.machine() != recorded {
        return Err(format!("{:?} is not {recorded:?}", node.manager.machine()));
    }
    let saved = StateFile::of(&node.manager).write(node.pod_level);
    match step["state_file"].as_str() {
        Some(recorded) if recorded != saved => Err(format!("state file: {saved}")),
        _ => Ok(()),
    }
}
