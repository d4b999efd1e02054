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

/// A node with ten thousandths of a CPU, 20 bytes, four places, and as many devices as are told.
struct World {
    book: Book,
    node: Node,
    pressure: Pressure,
    gpus: Option<i64>,
}

impl World {
    fn new() -> Self {
        let capacity = [(CPU, 10), (MEMORY, 20), (PODS, 4)].map(|(name, n)| (name.to_owned(), n)).into();
        let node = Node { capacity, ..Node::default() };
        Self { book: Book::default(), node, pressure: Pressure::default(), gpus: None }
    }

    fn settle(&mut self) -> Settled {
        let gpus = self.gpus;
        let facts = Facts {
            node: &self.node,
            pressure: &self.pressure,
            devices: &|name, _| gpus.filter(|_| name == GPU),
        };
        self.book.settle(&facts)
    }

    /// Those who go on when this one asks.
    fn ask(&mut self, pod: &Arc<Pod>) -> Vec<String> {
        self.book.ask(pod);
        self.settle().granted
    }

    fn release(&mut self, uid: &str) -> Vec<String> {
        self.book.release(uid);
        self.settle().granted
    }

    fn why(&self, uid: &str) -> (String, String) {
        let why = self.book.why(uid).cloned().unwrap_or_default();
        (why.reason, why.message)
    }
}

fn cpu(uid: &str, priority: i32, milli: i64) -> Arc<Pod> {
    pod(uid, priority, json!({"cpu": format!("{milli}m")}))
}

#[test]
fn they_go_on_by_priority_and_then_as_they_came() {
    let mut world = World::new();
    assert_eq!(world.ask(&cpu("a", 0, 8)), ["a"]);
    for (uid, priority) in [("b", 0), ("c", 5), ("d", 0)] {
        assert!(world.ask(&cpu(uid, priority, 5)).is_empty());
    }
    let expected = "Node didn't have enough resource: cpu, requested: 5, used: 8, capacity: 10";
    assert_eq!(world.why("b"), ("OutOfcpu".into(), expected.into()));
    assert_eq!(world.ask(&cpu("small", -9, 2)), ["small"], "one that does not fit holds up nobody");
    assert_eq!(world.release("a"), ["c"]);
    assert_eq!(world.release("c"), ["b"]);
    assert_eq!(world.release("small"), ["d"]);
    assert_eq!(world.book.held(CPU), 10);
    assert!(world.release("unknown").is_empty());
}

#[test]
fn who_gives_up_waiting_is_forgotten() {
    let mut world = World::new();
    world.ask(&cpu("a", 0, 8));
    world.ask(&cpu("b", 0, 8));
    assert!(world.release("b").is_empty());
    assert!(world.release("a").is_empty());
    assert!(!world.book.holds("b"));
}

#[test]
fn places_run_out_too() {
    let mut world = World::new();
    for uid in ["a", "b", "c", "d", "e"] {
        world.ask(&pod(uid, 0, json!({})));
    }
    assert_eq!(world.why("e").0, "OutOfpods");
    assert_eq!(world.release("c"), ["e"]);
}

#[test]
fn what_runs_is_entered_whatever_there_is() {
    let mut world = World::new();
    world.book.enter(&cpu("a", 0, 8));
    world.book.enter(&cpu("b", 0, 8));
    world.book.enter(&cpu("b", 0, 8));
    assert_eq!(world.book.held(CPU), 16);
    world.ask(&cpu("c", 0, 1));
    assert_eq!(world.why("c").0, "OutOfcpu");
    assert!(world.release("a").contains(&"c".to_owned()));
    world.ask(&cpu("d", 0, 9));
    world.book.enter(&cpu("d", 0, 9));
    assert!(world.book.holds("d") && world.book.why("d").is_none());
}

#[test]
fn what_is_resized_holds_it_whatever_there_is() {
    let mut world = World::new();
    world.ask(&cpu("a", 0, 6));
    world.ask(&cpu("b", 0, 5));
    world.book.resized(&cpu("a", 0, 30), true);
    assert!(world.settle().granted.is_empty());
    assert_eq!((world.book.holds("a"), world.book.held(CPU)), (true, 30));
    world.book.resized(&cpu("a", 0, 1), true);
    assert_eq!(world.book.held(CPU), 30, "on its way there it may use both");
    world.book.resized(&cpu("a", 0, 1), false);
    assert_eq!(world.settle().granted, ["b"]);
    world.ask(&cpu("c", 0, 9));
    world.book.resized(&cpu("c", 0, 4), true);
    assert_eq!(world.settle().granted, ["c"], "one that waits asks for something else");
}

#[test]
fn growth_waits_for_room() {
    let mut world = World::new();
    world.ask(&cpu("a", 0, 3));
    world.ask(&cpu("b", 0, 5));
    let asked =
        |world: &World, pod: &Pod| world.book.no_growth(pod, &world.node).map(|no| no.pending().reason());
    assert_eq!(asked(&world, &cpu("a", 0, 5)), None);
    assert_eq!(asked(&world, &cpu("a", 0, 6)), Some("Deferred"));
    assert_eq!(asked(&world, &cpu("a", 0, 11)), Some("Infeasible"));
    assert_eq!(asked(&world, &cpu("stranger", 0, 11)), None, "it does not run");
    // What a victim gives back is kept for the critical one that waits.
    world.ask(&cpu("c", 2_000_000_000, 4));
    world.book.leaving("b");
    assert_eq!(asked(&world, &cpu("a", 0, 4)), Some("Deferred"));
    world.release("b");
    assert!(world.book.holds("c"));
    assert_eq!(asked(&world, &cpu("a", 0, 6)), None);
    assert_eq!(asked(&world, &cpu("a", 0, 7)), Some("Deferred"));
}

#[test]
fn devices() {
    let gpus = |uid: &str, count: i64| pod(uid, 0, json!({GPU: count}));
    let mut world = World::new();
    assert_eq!(world.ask(&gpus("a", 2)), ["a"], "nobody knows: that is for the device manager to say");
    world.gpus = Some(3);
    assert!(world.ask(&gpus("b", 2)).is_empty());
    assert_eq!(world.why("b").0, "OutOfa.b/gpu");
    world.gpus = Some(4);
    assert_eq!(world.settle().granted, ["b"]);
    world.ask(&gpus("c", 1));
    world.gpus = None;
    assert_eq!(world.settle().granted, ["c"], "its plugin went away");
    let own = |name: &str, count: u32| json!({"name": name, "resources": {"requests": {GPU: count}}});
    let mut world = World { gpus: Some(4), ..World::new() };
    let first = pod_of("a", json!({"initContainers": [own("i", 4)], "containers": [own("c", 1)]}));
    world.ask(&first);
    assert!(world.ask(&gpus("b", 3)).is_empty());
    world.book.initialised("a");
    assert_eq!(world.settle().granted, ["b"], "what only its init container had");
    world.book.resized(&first, false);
    assert_eq!(world.book.held(GPU), 4);
}

#[test]
fn conditions() {
    let mut world = World::new();
    world.pressure.0.insert(NodeCondition::MemoryPressure, Timestamp::UNIX_EPOCH);
    assert!(world.ask(&pod("none", 0, json!({}))).is_empty());
    assert_eq!(world.ask(&cpu("some", 0, 1)), ["some"]);
    world.pressure.0.insert(NodeCondition::DiskPressure, Timestamp::UNIX_EPOCH);
    assert!(world.ask(&cpu("other", 0, 1)).is_empty());
    assert_eq!(world.ask(&cpu("critical", CRITICAL, 1)), ["critical"]);
    assert_eq!(world.why("none").0, "Evicted");
    world.pressure.0.clear();
    assert_eq!(world.settle().granted, ["none", "other"]);
}

#[test]
fn critical_pods_take_their_place() {
    let mut world = World::new();
    for (uid, milli) in [("a", 3), ("b", 4), ("c", 3)] {
        world.ask(&cpu(uid, 0, milli));
    }
    world.ask(&cpu("plain", 7, 4));
    let settled = {
        world.book.ask(&cpu("critical", CRITICAL, 6));
        world.settle()
    };
    let victims: BTreeSet<_> = settled.preempted[0].victims.iter().map(|own| own.name.clone()).collect();
    assert_eq!((settled.preempted.len(), victims), (1, ["b".to_owned(), "c".to_owned()].into()));
    assert!(world.settle().preempted.is_empty(), "they are told once");
    let message = world.why("critical").1;
    assert!(message.ends_with("used: 10, capacity: 10; waits for pods that make way: n/b, n/c"), "{message}");
    assert!(world.release("b").is_empty(), "it is not for the one that waits, too");
    assert!(world.ask(&cpu("late", CRITICAL - 1, 2)).is_empty());
    assert_eq!(world.release("c"), ["critical"]);
    assert_eq!(world.ask(&cpu("little", 0, 1)), ["little"], "nothing is kept any more");
}

#[test]
fn critical_pods_count_on_those_that_end_anyway() {
    let mut world = World::new();
    world.ask(&cpu("a", CRITICAL, 6));
    world.ask(&cpu("b", 0, 4));
    world.book.ask(&cpu("critical", CRITICAL, 5));
    let settled = world.settle();
    assert_eq!((settled.preempted.len(), settled.preempted[0].victims.len()), (1, 0));
    let text = "; preemption: no set of running pods found to reclaim resources: [(res: cpu, q: 1), ]";
    assert!(world.why("critical").1.ends_with(text), "{}", world.why("critical").1);
    assert!(world.settle().preempted.is_empty(), "that is said once");
    world.book.leaving("a");
    assert!(world.settle().preempted.is_empty());
    assert_eq!(world.release("a"), ["critical"]);
    assert!(world.book.holds("b"));
}

#[test]
fn nobody_goes_where_more_than_resources_is_missing() {
    let mut world = World::new();
    world.ask(&cpu("a", 0, 10));
    let requests = json!({"cpu": "5m"});
    let spec = json!({
        "priority": CRITICAL, "nodeSelector": {"disk": "ssd"},
        "containers": [{"name": "c", "resources": {"requests": requests}}],
    });
    world.book.ask(&pod_of("critical", spec));
    assert!(world.settle().preempted.is_empty());
    assert_eq!(world.why("critical").0, "NodeAffinity", "what no other pod can give it is the reason");
    world.book.ask(&cpu("high", CRITICAL - 1, 5));
    assert!(world.settle().preempted.is_empty(), "a priority alone preempts nobody");
    world.node.manifests_critical = true;
    assert_eq!(world.settle().preempted.len(), 1);
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
    fn whatever_happens(needs in needs(), steps in prop::collection::vec(step(), 1..60)) {
        let of = |index: usize, divided: i64| {
            let (priority, milli, bytes, gpus) = needs[index];
            let requests = json!({"cpu": format!("{}m", milli / divided), "memory": bytes / divided, GPU: gpus});
            pod(&index.to_string(), priority, requests)
        };
        let mut world = World { gpus: Some(4), ..World::new() };
        let mut told: BTreeSet<String> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Ask(index) => world.book.ask(&of(index, 1)),
                Step::Release(index) => {
                    world.book.release(&index.to_string());
                    told.remove(&index.to_string());
                }
                Step::Leaving(index) => world.book.leaving(&index.to_string()),
                Step::Shrink(index) => world.book.resized(&of(index, 2), false),
                Step::Pressure(true) => {
                    world.pressure.0.insert(NodeCondition::DiskPressure, Timestamp::UNIX_EPOCH);
                }
                Step::Pressure(false) => world.pressure.0.clear(),
            }
            let settled = world.settle();
            for (resource, capacity) in [(CPU, 10), (MEMORY, 20), (PODS, 4), (GPU, 4)] {
                prop_assert!(world.book.held(resource) <= capacity, "{} of {}", resource, capacity);
            }
            for preempted in &settled.preempted {
                prop_assert!(preempted.pod.is_critical());
                prop_assert_eq!(preempted.victims.is_empty(), !preempted.unable.is_empty());
                for victim in &preempted.victims {
                    prop_assert!(victim.priority < preempted.pod.priority);
                    prop_assert!(world.book.holds(&victim.uid));
                    prop_assert!(told.insert(victim.uid.clone()), "told twice");
                }
            }
            let again = world.settle();
            prop_assert!(again.granted.is_empty() && again.changed.is_empty() && again.preempted.is_empty());
        }
        // When everybody on the way out is gone, the most critical one that others made way for runs.
        let first = world.book.waiting.iter().find(|own| own.reserves).map(|own| own.pod.uid.clone());
        let out: Vec<String> =
            world.book.holders.iter().filter(|(_, own)| own.leaving).map(|(uid, _)| uid.clone()).collect();
        for uid in out {
            world.release(&uid);
        }
        if let Some(first) = first {
            prop_assert!(world.book.holds(&first), "{}", world.why(&first).1);
        }
        // And when everybody is gone, so does everyone who can run at all.
        world.pressure.0.clear();
        world.settle();
        let holders: Vec<String> = world.book.holders.keys().cloned().collect();
        for uid in holders {
            world.release(&uid);
        }
        if let Some(own) = world.book.waiting.first() {
            let alone = of(own.pod.uid.parse().unwrap(), 1);
            let fits = |name: &str, most: i64| amount(&own.wants, name) + world.book.held(name) <= most;
            let all = [(CPU, 10), (MEMORY, 20), (GPU, 4), (PODS, 4)];
            prop_assert!(!all.iter().all(|(name, most)| fits(name, *most)), "{} waits for nothing", alone.name);
        }
    }
}
