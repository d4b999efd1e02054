//! A machine with two NUMA nodes of four CPUs each.

use nodewarden_config::ResourceManagerSettings;
use nodewarden_manifest::Quantity;
use nodewarden_model::PodReason;
use nodewarden_topology::{AllocateError, Allocated, Cpu, CpuTopology, Hints, NumaNode};
use serde_json::json;

use super::*;

/// A provider that gives nothing.
pub(crate) struct Nothing;

impl Provider for Nothing {
    fn container_hints(&mut self, _: &Pod, _: &nodewarden_manifest::Container) -> Hints {
        Hints::new()
    }

    fn pod_hints(&mut self, _: &Pod) -> Hints {
        Hints::new()
    }

    fn allocate(
        &mut self,
        _: &Pod,
        _: &nodewarden_manifest::Container,
        _: Hint,
    ) -> Result<Allocated, AllocateError> {
        Ok(Allocated::Unchanged)
    }

    fn allocate_pod(&mut self, _: &Pod, _: Hint) -> Result<Allocated, AllocateError> {
        Ok(Allocated::Unchanged)
    }

    fn release(&mut self, _: &str, _: &str) {}
}

pub(crate) fn machine(cpus: u32) -> Machine {
    let cpu = |cpu: u32| Cpu { cpu, core: cpu, socket: 0, node: cpu / 4, cache: cpu / 4 * 4 };
    let node = |id| NumaNode { id, memory_bytes: 8 << 30, huge_pages: Vec::new(), distances: vec![10, 20] };
    Machine { cpus: CpuTopology::new((0..cpus).map(cpu)), nodes: vec![node(0), node(1)] }
}

pub(crate) fn keys(topology: &str) -> ResourceManagerSettings {
    let limits = |gi: i64| [("memory".to_owned(), Quantity::from_bytes(gi << 30))].into();
    ResourceManagerSettings {
        cpu_policy: "static".into(),
        memory_policy: "Static".into(),
        reserved_memory: vec![(0, limits(1)), (1, limits(1))],
        topology_policy: topology.into(),
        ..ResourceManagerSettings::default()
    }
}

pub(crate) fn reserved() -> Reservation {
    let list =
        [("cpu".to_owned(), Quantity::from_milli(500)), ("memory".to_owned(), Quantity::from_bytes(2 << 30))];
    Reservation(list.into())
}

pub(crate) fn pod(uid: &str, cpus: &[u32]) -> Pod {
    let container = |(at, cpus): (usize, &u32)| {
        json!({
            "name": format!("c{at}"),
            "image": "i",
            "resources": {"limits": {"cpu": cpus.to_string(), "memory": "1Gi"}},
        })
    };
    let containers: Vec<_> = cpus.iter().enumerate().map(container).collect();
    let mut pod = (*nodewarden_manifest::fixture::pod(json!({ "containers": containers }))).clone();
    pod.uid = uid.to_owned();
    pod
}

fn managers(topology: &str) -> Managers {
    Managers::new(keys(topology), reserved(), machine(8), &Saved::default()).unwrap().0
}

fn cpus(managers: &Managers, uid: &str) -> String {
    managers.cpus_of(uid, "c0").unwrap().to_string()
}

#[test]
fn a_pod_gets_cpus_and_memory_of_one_numa_node() {
    let mut managers = managers("single-numa-node");
    managers.admit(&pod("p", &[3]), &mut Nothing).unwrap();
    managers.admit(&pod("q", &[3]), &mut Nothing).unwrap();
    // CPU 0 is reserved.
    assert_eq!((cpus(&managers, "p"), cpus(&managers, "q")), ("1-3".to_owned(), "4-6".to_owned()));
    assert_eq!(cpus(&managers, "other"), "0,7");
    let nodes = |uid| managers.memory.nodes_of(uid, "c0").unwrap().to_string();
    assert_eq!((nodes("p"), nodes("q")), ("0".to_owned(), "1".to_owned()));
}

#[test]
fn a_pod_that_cannot_be_aligned_gets_nothing_and_the_message_says_of_what() {
    let mut managers = managers("single-numa-node");
    managers.admit(&pod("p", &[3]), &mut Nothing).unwrap();
    let error = managers.admit(&pod("q", &[2, 3]), &mut Nothing).unwrap_err();
    assert_eq!(error.reason, PodReason::TopologyAffinityError);
    assert!(error.message.contains("cpu"), "{error}");
    assert_eq!(managers.given("q"), Given::default());
    assert_eq!(cpus(&managers, "q"), "0,4-7");
}

#[test]
fn releasing_gives_back_what_was_given() {
    let mut managers = managers("none");
    let before = managers.saved();
    managers.admit(&pod("p", &[2, 1]), &mut Nothing).unwrap();
    assert!(managers.release("p") && !managers.release("p"));
    assert_eq!(managers.saved(), before);
}

#[test]
fn what_is_saved_is_kept_by_the_next_agent() {
    let mut first = managers("restricted");
    first.admit(&pod("p", &[2]), &mut Nothing).unwrap();
    let (cpus, memory) = first.saved();
    let saved = Saved { cpus: Some(cpus), memory: Some(memory) };
    let (next, findings) = Managers::new(keys("restricted"), reserved(), machine(8), &saved).unwrap();
    assert_eq!((next.saved(), findings), (first.saved(), Vec::new()));
}

#[test]
fn a_change_of_policy_needs_no_deleted_state_file() {
    let mut first = managers("none");
    first.admit(&pod("p", &[2]), &mut Nothing).unwrap();
    let (cpus, memory) = first.saved();
    let saved = Saved { cpus: Some(cpus), memory: Some(memory) };
    let none = ResourceManagerSettings::default();
    let (next, findings) = Managers::new(none, reserved(), machine(8), &saved).unwrap();
    assert!(!next.is_active() && findings.len() >= 2, "{findings:?}");
    let (cpus, memory) = next.saved();
    let saved = Saved { cpus: Some(cpus), memory: Some(memory) };
    let (mut back, findings) = Managers::new(keys("none"), reserved(), machine(8), &saved).unwrap();
    assert_eq!(findings, Vec::<String>::new());
    // A pod that runs since then gets what it should have.
    assert_eq!(back.adopt(&pod("p", &[2])), Vec::<String>::new());
    assert_eq!(back.cpus_of("p", "c0").unwrap().to_string(), "1-2");
}

#[test]
fn running_containers_keep_what_is_left_when_cpus_go_offline() {
    let mut managers = managers("none");
    managers.admit(&pod("p", &[3]), &mut Nothing).unwrap();
    let mut smaller = machine(8);
    smaller.cpus = machine(3).cpus;
    let (after, findings) = managers.moved_to(smaller).unwrap();
    assert_eq!(cpus(&after, "p"), "1-2");
    assert!(
        findings.iter().any(|finding| finding.contains("CPUs 3 of its own are not online")),
        "{findings:?}"
    );
    // The state file has what there is; CPUs that come back are free again.
    let (back, findings) = after.moved_to(machine(8)).unwrap();
    assert_eq!((cpus(&back, "p"), findings), ("1-2".to_owned(), Vec::new()));
    assert_eq!(cpus(&back, "other"), "0,3-7");
}

#[test]
fn settings_that_do_not_fit_the_machine_are_refused_by_their_key() {
    type Change = fn(&mut ResourceManagerSettings);
    let cases: [(Change, &str); 6] = [
        (|keys| keys.reserved_cpus = CpuSet::parse("9").unwrap(), "reservedSystemCPUs: "),
        (
            |keys| _ = keys.cpu_options.insert("full".into(), "true".into()),
            "cpuManagerPolicyOptions: unknown",
        ),
        (|keys| _ = keys.cpu_options.insert("align-by-socket".into(), "true".into()), "Alpha"),
        (|keys| keys.reserved_memory.clear(), "reservedMemory: the total amount"),
        (
            |keys| keys.reserved_memory[1].0 = 5,
            "reservedMemory: the reserved memory configuration references",
        ),
        (
            |keys| {
                keys.topology_policy = "restricted".into();
                keys.topology_options.insert("max-allowable-numa-nodes".into(), "4".into());
            },
            "topologyManagerPolicyOptions: the minimum value",
        ),
    ];
    for (change, expected) in cases {
        let mut changed = keys("none");
        change(&mut changed);
        let error = crate::check(&changed, &reserved(), &machine(8)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error} does not contain {expected}");
    }
    let nothing = Reservation::default();
    let error = crate::check(&keys("none"), &nothing, &machine(8)).unwrap_err().to_string();
    assert!(error.starts_with("cpuManagerPolicy: [cpumanager] the static policy requires"), "{error}");
}
