//! Compares the policy with what a kubelet 1.36 did in sequences of admissions, removals and restarts
//! (`resource_managers/cpu_policy.json`).

mod files;

use std::collections::BTreeMap;

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_testing::golden::are_our_own;
use nodewarden_topology::fixture::{Node, list, load, number, text, texts, topology};
use serde_json::{Value, json};

use crate::{Assignments, CpuManager, Options, Settings, StateFile};

pub(super) const FILE: &str = "cpu_policy.json";

/// Why a step is not as the kubelet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// Fault 1: with the kubelet's average sizes of cores and sockets the step is equal.
    AverageSizes,
    /// The kubelet gives the last shared CPUs away, and does not start again.
    LastSharedCpus,
    /// The recorder itself found the kubelet's state after the step wrong (faults 1, 6 and 8).
    WrongState,
    /// Faults 7 and 8: the kubelet rejects a running pod.
    RunningPodRejected,
    /// The kubelet does not start with other reserved CPUs or options.
    NotStarted,
}

/// Every step is the kubelet's, but for its faults. After such a step ours is put into the kubelet's state,
/// so that the next step is compared again.
#[test]
fn sequences_are_the_kubelets() {
    let Some(recorded) = load(FILE) else { return };
    let (mut equal, mut excepted) = (0, BTreeMap::<Reason, usize>::new());
    for sequence in list(&recorded["sequences"]) {
        let topology = topology(&recorded["topologies"][text(&sequence["topology"])]);
        let made = settings(sequence, sequence, &topology);
        if sequence["start_error"].is_object() {
            let error = made.expect_err("the kubelet does not start").to_string();
            assert_eq!(error, text(&sequence["start_error"]["error"]), "sequence {}", sequence["id"]);
            equal += 1;
            continue;
        }
        let made = made.unwrap_or_else(|error| panic!("sequence {}: {error}", sequence["id"]));
        assert_eq!(
            made.reserved.to_string(),
            text(&sequence["reserved_result"]),
            "sequence {}",
            sequence["id"]
        );
        let manager = CpuManager::new(topology.clone(), made);
        let mut node = Node::new(sequence, manager, topology.node_set(), shown);
        assert_eq!(node.manager.shared().to_string(), text(&sequence["start_default_cpus"]));
        let steps = list(&sequence["steps"]);
        for (at, step) in steps.iter().enumerate() {
            let place = format!("sequence {} step {at}: {}", sequence["id"], step["op"]);
            let before = node.clone();
            let after = state_after(steps, at);
            let result = run(&mut node, sequence, step, after);
            let gained = node.manager.assignments().all().difference(&before.manager.assignments().all());
            assert!(gained.is_subset(&before.manager.available()), "{place}: {gained} was not free");
            let restarted = step["op"] == "restart";
            let kept = restarted || !before.manager.is_consistent() || node.manager.is_consistent();
            assert!(kept, "{place}: {:?}", node.manager.assignments());
            let Err(difference) = result else {
                equal += 1;
                continue;
            };
            let reason = explain(before, sequence, step, after, &node)
                .unwrap_or_else(|| panic!("{place}: {difference}\n{step}"));
            *excepted.entry(reason).or_default() += 1;
            let topology = node.manager.topology().clone();
            node.manager = node.manager.clone().with(topology, assignments(step));
        }
    }
    let total: usize = excepted.values().sum();
    println!("steps: {equal} equal, {total} excepted: {excepted:?}");
    assert!(!are_our_own() || (equal, total) == COUNTS, "{equal} equal, {excepted:?}");
}

/// Steps (and failed starts) that are equal, and those that are excepted, in the project's own recordings.
const COUNTS: (usize, usize) = (505, 43);

/// The settings of a sequence, or of a restart that changes some of them.
fn settings(
    sequence: &Value,
    changes: &Value,
    topology: &nodewarden_topology::CpuTopology,
) -> Result<Settings, crate::SettingsError> {
    let of = |key: &str| if changes[key].is_null() { &sequence[key] } else { &changes[key] };
    let alpha = sequence["feature_gates"]["CPUManagerPolicyAlphaOptions"] == true;
    let options = Options::parse(&texts(of("policy_options")), alpha, true)?;
    let reserved = CpuSet::parse(text(of("reserved_cpus"))).expect("a list of CPUs");
    let single = sequence["topology_manager"]["policy"] == "single-numa-node";
    let settings =
        Settings::fixed(topology, options, number(of("reserved_count")) as usize, &reserved, single)?;
    Ok(Settings { pod_level: pod_level(sequence), ..settings })
}

pub(super) fn pod_level(sequence: &Value) -> bool {
    sequence["feature_gates"]["PodLevelResourceManagers"] == true
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
fn run(node: &mut Node<CpuManager>, sequence: &Value, step: &Value, after: &Value) -> Result<(), String> {
    if step["op"] == "restart" {
        let made = settings(sequence, step, node.manager.topology()).map_err(|error| error.to_string())?;
        let saved = StateFile::of(&node.manager).write(node.pod_level);
        let saved = StateFile::read(&saved, |_| None).map_err(|error| error.to_string())?;
        let (manager, findings) =
            CpuManager::restore(node.manager.topology().clone(), made, &saved.assignments);
        node.manager = manager;
        if step["start_error"].is_object() {
            assert_eq!(node.manager.assignments(), &saved.assignments, "what runs keeps its CPUs: {step}");
            return Err(format!("{} {findings:?}", step["start_error"]));
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
fn explain(
    before: Node<CpuManager>,
    sequence: &Value,
    step: &Value,
    after: &Value,
    ours: &Node<CpuManager>,
) -> Option<Reason> {
    if step["start_error"].is_object() {
        return Some(Reason::NotStarted);
    }
    let mut average = before.clone();
    let sizes = before.manager.topology().clone().with_average_sizes();
    average.manager = average.manager.with(sizes, before.manager.assignments().clone());
    if run(&mut average, sequence, step, after).is_ok() {
        return Some(Reason::AverageSizes);
    }
    let last = |error: &String| error.contains("the last ones");
    if step["default_cpus"] == "" || ours.last_error.as_ref().is_some_and(last) {
        return Some(Reason::LastSharedCpus);
    }
    let uid = step["pod"]["uid"].as_str().unwrap_or_default();
    let rejected = step["op"] == "readmit" && step["admit"] == false && ours.last_error.is_none();
    if rejected
        && ours.manager.assignments().containers.get(uid) == before.manager.assignments().containers.get(uid)
    {
        return Some(Reason::RunningPodRejected);
    }
    let wrong = |step: &Value| !list(&step["kubelet_faults"]).is_empty();
    wrong(step).then_some(Reason::WrongState)
}

/// The recorded assignments of a step.
pub(super) fn assignments(step: &Value) -> Assignments {
    let cpus = |cpus: &String| CpuSet::parse(cpus).expect("a list of CPUs");
    let by_name =
        |value: &Value| texts(value).iter().map(|(name, list)| (name.clone(), cpus(list))).collect();
    let containers = step["assignments"].as_object().into_iter().flatten();
    Assignments {
        containers: containers.map(|(uid, value)| (uid.clone(), by_name(value))).collect(),
        pods: by_name(&step["pod_assignments"]),
    }
}

/// The CPUs of a container or pod, as they are recorded with a call.
fn shown(manager: &CpuManager, uid: &str, container: Option<&str>) -> Option<(&'static str, Value)> {
    let assignments = manager.assignments();
    let cpus = match container {
        Some(container) => assignments.get(uid, container),
        None => assignments.pods.get(uid),
    };
    cpus.map(|cpus| ("cpus", json!(cpus.to_string())))
}

/// Compares the state after a step.
fn compare(node: &Node<CpuManager>, step: &Value) -> Result<(), String> {
    let recorded = assignments(step);
    if *node.manager.assignments() != recorded {
        return Err(format!("{:?} is not {recorded:?}", node.manager.assignments()));
    }
    let shared = node.manager.shared().to_string();
    if shared != text(&step["default_cpus"]) {
        return Err(format!("shared: {shared}"));
    }
    let saved = StateFile::of(&node.manager).write(node.pod_level);
    match step["state_file"].as_str() {
        Some(recorded) if recorded != saved => Err(format!("state file: {saved}")),
        _ => Ok(()),
    }
}
