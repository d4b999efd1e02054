use std::collections::BTreeSet;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::amounts::PODS;
use super::*;
use nodewarden_eviction::NodeCondition;
use nodewarden_manifest::names::{CPU, MEMORY};

const GPU: &str = "a.b/gpu";
const CRITICAL: i32 = 2_000_000_000;

fn pod(uid: &str, priority: i32, requests: Value) -> Arc<Pod> {
    let containers = json!([{"name": "c", "resources": {"requests": requests}}]);
    pod_of(uid, json!({"priority": priority, "containers": containers}))
}

fn pod_of(uid: &str, spec: Value) -> Arc<Pod> {
    let manifest = json!({"metadata": {"namespace": "n", "name": uid, "uid": uid}, "spec": spec});
    Arc::new(Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap())
}

/// A node with ten thousandths of a CPU, 20 bytes of memory, room for four pods, and the given number of
/// devices.
struct Fixture {
    queue: AdmissionQueue,
    node: Node,
    pressure: Pressure,
    gpus: Option<i64>,
}

impl Fixture {
    fn new() -> Self {
        let capacity = [(CPU, 10), (MEMORY, 20), (PODS, 4)].map(|(name, n)| (name.to_owned(), n)).into();
        let node = Node { capacity, ..Node::default() };
        Self { queue: AdmissionQueue::default(), node, pressure: Pressure::default(), gpus: None }
    }

    fn settle(&mut self) -> Settled {
        let gpus = self.gpus;
        let facts = Facts {
            node: &self.node,
            pressure: &self.pressure,
            devices: &|name, _| gpus.filter(|_| name == GPU),
        };
        self.queue.settle(&facts)
    }

    /// The pods that are admitted when this one is queued.
    fn ask(&mut self, pod: &Arc<Pod>) -> Vec<String> {
        self.queue.ask(pod);
        self.settle().granted
    }

    fn release(&mut self, uid: &str) -> Vec<String> {
        self.queue.release(uid);
        self.settle().granted
    }

    fn why(&self, uid: &str) -> (String, String) {
        let why = self.queue.why(uid).cloned().unwrap_or_default();
        (why.reason.map(|reason| reason.to_string()).unwrap_or_default(), why.message)
    }
}

fn cpu(uid: &str, priority: i32, milli: i64) -> Arc<Pod> {
    pod(uid, priority, json!({"cpu": format!("{milli}m")}))
}

#[test]
fn pods_are_admitted_by_priority_then_arrival() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.ask(&cpu("a", 0, 8)), ["a"]);
    for (uid, priority) in [("b", 0), ("c", 5), ("d", 0)] {
        assert!(fixture.ask(&cpu(uid, priority, 5)).is_empty());
    }
    let expected = "Node didn't have enough resource: cpu, requested: 5, used: 8, capacity: 10";
    assert_eq!(fixture.why("b"), ("OutOfcpu".into(), expected.into()));
    assert_eq!(fixture.ask(&cpu("small", -9, 2)), ["small"], "a pod that does not fit does not block others");
    assert_eq!(fixture.release("a"), ["c"]);
    assert_eq!(fixture.release("c"), ["b"]);
    assert_eq!(fixture.release("small"), ["d"]);
    assert_eq!(fixture.queue.held(CPU), 10);
    assert!(fixture.release("unknown").is_empty());
}

#[test]
fn a_pod_that_gives_up_waiting_is_removed() {
    let mut fixture = Fixture::new();
    fixture.ask(&cpu("a", 0, 8));
    fixture.ask(&cpu("b", 0, 8));
    assert!(fixture.release("b").is_empty());
    assert!(fixture.release("a").is_empty());
    assert!(!fixture.queue.holds("b"));
}

#[test]
fn the_number_of_pods_is_limited() {
    let mut fixture = Fixture::new();
    for uid in ["a", "b", "c", "d", "e"] {
        fixture.ask(&pod(uid, 0, json!({})));
    }
    assert_eq!(fixture.why("e").0, "OutOfpods");
    assert_eq!(fixture.release("c"), ["e"]);
}

#[test]
fn a_running_pod_is_added_whatever_is_available() {
    let mut fixture = Fixture::new();
    fixture.queue.enter(&cpu("a", 0, 8));
    fixture.queue.enter(&cpu("b", 0, 8));
    fixture.queue.enter(&cpu("b", 0, 8));
    assert_eq!(fixture.queue.held(CPU), 16);
    fixture.ask(&cpu("c", 0, 1));
    assert_eq!(fixture.why("c").0, "OutOfcpu");
    assert!(fixture.release("a").contains(&"c".to_owned()));
    fixture.ask(&cpu("d", 0, 9));
    fixture.queue.enter(&cpu("d", 0, 9));
    assert!(fixture.queue.holds("d") && fixture.queue.why("d").is_none());
}

#[test]
fn a_resized_pod_holds_its_requests_whatever_is_available() {
    let mut fixture = Fixture::new();
    fixture.ask(&cpu("a", 0, 6));
    fixture.ask(&cpu("b", 0, 5));
    fixture.queue.resized(&cpu("a", 0, 30), true);
    assert!(fixture.settle().granted.is_empty());
    assert_eq!((fixture.queue.holds("a"), fixture.queue.held(CPU)), (true, 30));
    fixture.queue.resized(&cpu("a", 0, 1), true);
    assert_eq!(fixture.queue.held(CPU), 30, "on its way there it may use both");
    fixture.queue.resized(&cpu("a", 0, 1), false);
    assert_eq!(fixture.settle().granted, ["b"]);
    fixture.ask(&cpu("c", 0, 9));
    fixture.queue.resized(&cpu("c", 0, 4), true);
    assert_eq!(fixture.settle().granted, ["c"], "one that waits asks for something else");
}

#[test]
fn growth_waits_for_room() {
    let mut fixture = Fixture::new();
    fixture.ask(&cpu("a", 0, 3));
    fixture.ask(&cpu("b", 0, 5));
    let asked = |fixture: &Fixture, pod: &Pod| {
        fixture.queue.no_growth(pod, &fixture.node).map(|no| no.pending().reason())
    };
    assert_eq!(asked(&fixture, &cpu("a", 0, 5)), None);
    assert_eq!(asked(&fixture, &cpu("a", 0, 6)), Some("Deferred"));
    assert_eq!(asked(&fixture, &cpu("a", 0, 11)), Some("Infeasible"));
    assert_eq!(asked(&fixture, &cpu("stranger", 0, 11)), None, "it does not run");
    // What a victim releases is reserved for the waiting critical pod.
    fixture.ask(&cpu("c", 2_000_000_000, 4));
    fixture.queue.leaving("b");
    assert_eq!(asked(&fixture, &cpu("a", 0, 4)), Some("Deferred"));
    fixture.release("b");
    assert!(fixture.queue.holds("c"));
    assert_eq!(asked(&fixture, &cpu("a", 0, 6)), None);
    assert_eq!(asked(&fixture, &cpu("a", 0, 7)), Some("Deferred"));
}

#[test]
fn devices_are_counted_by_the_plugin() {
    let gpus = |uid: &str, count: i64| pod(uid, 0, json!({GPU: count}));
    let mut fixture = Fixture::new();
    assert_eq!(
        fixture.ask(&gpus("a", 2)),
        ["a"],
        "the number of devices is not known: the device manager decides"
    );
    fixture.gpus = Some(3);
    assert!(fixture.ask(&gpus("b", 2)).is_empty());
    assert_eq!(fixture.why("b").0, "OutOfa.b/gpu");
    fixture.gpus = Some(4);
    assert_eq!(fixture.settle().granted, ["b"]);
    fixture.ask(&gpus("c", 1));
    fixture.gpus = None;
    assert_eq!(fixture.settle().granted, ["c"], "its plugin went away");
    let own = |name: &str, count: u32| json!({"name": name, "resources": {"requests": {GPU: count}}});
    let mut fixture = Fixture { gpus: Some(4), ..Fixture::new() };
    let first = pod_of("a", json!({"initContainers": [own("i", 4)], "containers": [own("c", 1)]}));
    fixture.ask(&first);
    assert!(fixture.ask(&gpus("b", 3)).is_empty());
    fixture.queue.initialised("a");
    assert_eq!(fixture.settle().granted, ["b"], "what only its init container had");
    fixture.queue.resized(&first, false);
    assert_eq!(fixture.queue.held(GPU), 4);
}

#[test]
fn node_conditions_keep_pods_waiting() {
    let mut fixture = Fixture::new();
    fixture.pressure.0.insert(NodeCondition::MemoryPressure, Timestamp::UNIX_EPOCH);
    assert!(fixture.ask(&pod("none", 0, json!({}))).is_empty());
    assert_eq!(fixture.ask(&cpu("some", 0, 1)), ["some"]);
    fixture.pressure.0.insert(NodeCondition::DiskPressure, Timestamp::UNIX_EPOCH);
    assert!(fixture.ask(&cpu("other", 0, 1)).is_empty());
    assert_eq!(fixture.ask(&cpu("critical", CRITICAL, 1)), ["critical"]);
    assert_eq!(fixture.why("none").0, "Evicted");
    fixture.pressure.0.clear();
    assert_eq!(fixture.settle().granted, ["none", "other"]);
}

#[test]
fn critical_pods_preempt_others() {
    let mut fixture = Fixture::new();
    for (uid, milli) in [("a", 3), ("b", 4), ("c", 3)] {
        fixture.ask(&cpu(uid, 0, milli));
    }
    fixture.ask(&cpu("plain", 7, 4));
    let settled = {
        fixture.queue.ask(&cpu("critical", CRITICAL, 6));
        fixture.settle()
    };
    let victims: BTreeSet<_> = settled.preempted[0].victims.iter().map(|own| own.name.clone()).collect();
    assert_eq!((settled.preempted.len(), victims), (1, ["b".to_owned(), "c".to_owned()].into()));
    assert!(fixture.settle().preempted.is_empty(), "reported once");
    let message = fixture.why("critical").1;
    assert!(message.ends_with("used: 10, capacity: 10; waits for preempted pods: n/b, n/c"), "{message}");
    assert!(fixture.release("b").is_empty(), "it is not for the one that waits, too");
    assert!(fixture.ask(&cpu("late", CRITICAL - 1, 2)).is_empty());
    assert_eq!(fixture.release("c"), ["critical"]);
    assert_eq!(fixture.ask(&cpu("little", 0, 1)), ["little"], "nothing is kept any more");
}

#[test]
fn critical_pods_count_on_terminating_pods() {
    let mut fixture = Fixture::new();
    fixture.ask(&cpu("a", CRITICAL, 6));
    fixture.ask(&cpu("b", 0, 4));
    fixture.queue.ask(&cpu("critical", CRITICAL, 5));
    let settled = fixture.settle();
    assert_eq!((settled.preempted.len(), settled.preempted[0].victims.len()), (1, 0));
    let text = "; preemption: no set of running pods found to reclaim resources: [(res: cpu, q: 1), ]";
    assert!(fixture.why("critical").1.ends_with(text), "{}", fixture.why("critical").1);
    assert!(fixture.settle().preempted.is_empty(), "that is said once");
    fixture.queue.leaving("a");
    assert!(fixture.settle().preempted.is_empty());
    assert_eq!(fixture.release("a"), ["critical"]);
    assert!(fixture.queue.holds("b"));
}

#[test]
fn no_pod_is_preempted_when_more_than_resources_is_missing() {
    let mut fixture = Fixture::new();
    fixture.ask(&cpu("a", 0, 10));
    let requests = json!({"cpu": "5m"});
    let spec = json!({
        "priority": CRITICAL, "nodeSelector": {"disk": "ssd"},
        "containers": [{"name": "c", "resources": {"requests": requests}}],
    });
    fixture.queue.ask(&pod_of("critical", spec));
    assert!(fixture.settle().preempted.is_empty());
    assert_eq!(fixture.why("critical").0, "NodeAffinity", "what no other pod can give it is the reason");
    fixture.queue.ask(&cpu("high", CRITICAL - 1, 5));
    assert!(fixture.settle().preempted.is_empty(), "a priority alone preempts no pod");
    fixture.node.manifests_critical = true;
    assert_eq!(fixture.settle().preempted.len(), 1);
}

/// What may happen to one of a few pods.
#[derive(Debug, Clone, Copy)]
enum Step {
    Ask(usize),
    Release(usize),
    Leaving(usize),
    Shrink(usize),
    Pressure(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_usize..8).prop_map(Step::Ask),
        3 => (0_usize..8).prop_map(Step::Release),
        1 => (0_usize..8).prop_map(Step::Leaving),
        1 => (0_usize..8).prop_map(Step::Shrink),
        1 => prop::bool::ANY.prop_map(Step::Pressure),
    ]
}

fn needs() -> impl Strategy<Value = Vec<(i32, i64, i64, i64)>> {
    let priority = prop::sample::select(vec![0, 0, 1, CRITICAL, CRITICAL, CRITICAL + 1000]);
    prop::collection::vec((priority, 0_i64..12, 0_i64..12, 0_i64..3), 8)
}

proptest! {
    #[test]
    fn properties_hold_for_every_sequence_of_changes(needs in needs(), steps in prop::collection::vec(step(), 1..60)) {
        let of = |index: usize, divided: i64| {
            let (priority, milli, bytes, gpus) = needs[index];
            let requests = json!({"cpu": format!("{}m", milli / divided), "memory": bytes / divided, GPU: gpus});
            pod(&index.to_string(), priority, requests)
        };
        let mut fixture = Fixture { gpus: Some(4), ..Fixture::new() };
        let mut victims_seen: BTreeSet<String> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Ask(index) => fixture.queue.ask(&of(index, 1)),
                Step::Release(index) => {
                    fixture.queue.release(&index.to_string());
                    victims_seen.remove(&index.to_string());
                }
                Step::Leaving(index) => fixture.queue.leaving(&index.to_string()),
                Step::Shrink(index) => fixture.queue.resized(&of(index, 2), false),
                Step::Pressure(true) => {
                    fixture.pressure.0.insert(NodeCondition::DiskPressure, Timestamp::UNIX_EPOCH);
                }
                Step::Pressure(false) => fixture.pressure.0.clear(),
            }
            let settled = fixture.settle();
            for (resource, capacity) in [(CPU, 10), (MEMORY, 20), (PODS, 4), (GPU, 4)] {
                prop_assert!(fixture.queue.held(resource) <= capacity, "{} of {}", resource, capacity);
            }
            for preempted in &settled.preempted {
                prop_assert!(preempted.pod.is_critical());
                prop_assert_eq!(preempted.victims.is_empty(), !preempted.unable.is_empty());
                for victim in &preempted.victims {
                    prop_assert!(victim.priority < preempted.pod.priority);
                    prop_assert!(fixture.queue.holds(&victim.uid));
                    prop_assert!(victims_seen.insert(victim.uid.clone()), "preempted twice");
                }
            }
            let again = fixture.settle();
            prop_assert!(again.granted.is_empty() && again.changed.is_empty() && again.preempted.is_empty());
        }
        // When all terminating pods have ended, the most critical pod with victims is admitted.
        let first = fixture.queue.waiting.iter().find(|own| own.has_reservation).map(|own| own.pod.uid.clone());
        let out: Vec<String> =
            fixture.queue.holders.iter().filter(|(_, own)| own.leaving).map(|(uid, _)| uid.clone()).collect();
        for uid in out {
            fixture.release(&uid);
        }
        if let Some(first) = first {
            prop_assert!(fixture.queue.holds(&first), "{}", fixture.why(&first).1);
        }
        // When all pods have ended, every pod that fits the node is admitted.
        fixture.pressure.0.clear();
        fixture.settle();
        let holders: Vec<String> = fixture.queue.holders.keys().cloned().collect();
        for uid in holders {
            fixture.release(&uid);
        }
        if let Some(own) = fixture.queue.waiting.first() {
            let alone = of(own.pod.uid.parse().unwrap(), 1);
            let fits = |name: &str, most: i64| amount(&own.wants, name) + fixture.queue.held(name) <= most;
            let all = [(CPU, 10), (MEMORY, 20), (GPU, 4), (PODS, 4)];
            prop_assert!(!all.iter().all(|(name, most)| fits(name, *most)), "{} waits for nothing", alone.name);
        }
    }
}
