use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::super::amounts::PODS;
use super::*;
use nodewarden_eviction::NodeCondition;
use nodewarden_manifest::names::CPU;
use nodewarden_model::Decision;

const GPU: &str = "a.b/gpu";
const CRITICAL: i32 = 2_000_000_000;

fn pod(uid: &str, priority: i32, milli: i64, gpus: i64) -> Arc<Pod> {
    let requests = json!({"cpu": format!("{milli}m"), GPU: gpus});
    let containers = json!([{"name": "c", "resources": {"requests": requests}}]);
    let spec = json!({"priority": priority, "containers": containers});
    let manifest = json!({"metadata": {"namespace": "n", "name": uid, "uid": uid}, "spec": spec});
    Arc::new(Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap())
}

/// Ten thousandths of a CPU and places for a hundred pods.
struct World {
    admission: Admission,
    gpus: Arc<AtomicI64>,
    pressure: watch::Sender<Pressure>,
    evicted: Arc<Mutex<Vec<(String, Eviction)>>>,
    decisions: Arc<Mutex<Vec<Decision>>>,
}

impl World {
    fn new() -> Self {
        let gpus = Arc::new(AtomicI64::new(0));
        let (evicted, decisions) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (pressure, pressed) = watch::channel(Pressure::default());
        let capacity = [(CPU, 10), (PODS, 100)].map(|(name, n)| (name.to_owned(), n)).into();
        let (count, told, explained) = (gpus.clone(), evicted.clone(), decisions.clone());
        let admission = Admission::new(Needs {
            node: Node { capacity, ..Node::default() },
            devices: Arc::new(move |_, _| Some(count.load(Ordering::Relaxed))),
            pressure: pressed,
            evict: Arc::new(move |uid, eviction| told.lock().push((uid.to_owned(), eviction))),
            explain: Explain::new(move |decision| explained.lock().push(decision)),
        });
        Self { admission, gpus, pressure, evicted, decisions }
    }

    fn admit(&self, pod: &Arc<Pod>) {
        let waiter = self.admission.ask(pod);
        assert_eq!(waiter.standing(), Standing::Admitted);
        waiter.taken();
    }
}

async fn rings(waiter: &Waiter) -> bool {
    tokio::time::timeout(Duration::from_millis(50), waiter.news()).await.is_ok()
}

fn waits(waiter: &Waiter) -> bool {
    matches!(waiter.standing(), Standing::Waits(_))
}

#[tokio::test]
async fn exactly_those_are_woken_that_can_go_on() {
    let world = World::new();
    world.admit(&pod("a", 0, 10, 0));
    let [b, c, d] = ["b", "c", "d"].map(|uid| world.admission.ask(&pod(uid, 0, 5, 0)));
    // Why it waits is news once.
    assert!(rings(&b).await && rings(&c).await && rings(&d).await);
    assert!(!rings(&b).await);
    world.admission.release("a");
    assert!(rings(&b).await && rings(&c).await && !rings(&d).await);
    assert!(!waits(&b) && !waits(&c) && waits(&d));
    b.taken();
    c.taken();
    assert_eq!(world.admission.waiting().len(), 1);
    d.again();
    assert!(waits(&d) && !rings(&d).await);
}

#[tokio::test]
async fn what_nobody_takes_is_given_back() {
    let world = World::new();
    world.admit(&pod("a", 0, 10, 0));
    let b = world.admission.ask(&pod("b", 0, 10, 0));
    let c = world.admission.ask(&pod("c", 0, 10, 0));
    world.admission.release("a");
    assert!(!waits(&b) && waits(&c));
    drop(b);
    assert!(!waits(&c));
    drop(c);
    assert_eq!(world.admission.held(CPU), 0);
    world.admit(&pod("d", 0, 10, 0));
    // Asked for again, it has it, and keeps it whoever asked.
    drop(world.admission.ask(&pod("d", 0, 10, 0)));
    assert_eq!(world.admission.held(CPU), 10);
}

#[tokio::test]
async fn devices_and_conditions_wake() {
    let world = World::new();
    let changes = watch::Sender::new(0_u64);
    let follow = tokio::spawn(world.admission.clone().follow(changes.subscribe()));
    let gpu = world.admission.ask(&pod("gpu", 0, 1, 1));
    assert!(rings(&gpu).await && waits(&gpu));
    world.gpus.store(1, Ordering::Relaxed);
    changes.send_modify(|n| *n += 1);
    assert!(rings(&gpu).await && !waits(&gpu));
    world.pressure.send_modify(|own| {
        own.0.insert(NodeCondition::PidPressure, Timestamp::UNIX_EPOCH);
    });
    let plain = world.admission.ask(&pod("plain", 0, 1, 0));
    assert!(rings(&plain).await && waits(&plain));
    world.pressure.send_modify(|own| own.0.clear());
    assert!(rings(&plain).await && !waits(&plain));
    drop(changes);
    follow.await.unwrap();
}

#[tokio::test]
async fn victims_are_told_and_explained() {
    let world = World::new();
    world.admit(&pod("small", 0, 4, 0));
    world.admit(&pod("large", 0, 6, 0));
    let critical = world.admission.ask(&pod("critical", CRITICAL, 5, 0));
    let evicted = std::mem::take(&mut *world.evicted.lock());
    let (uid, eviction) = &evicted[0];
    assert_eq!((evicted.len(), uid.as_str(), eviction.reason.as_str()), (1, "large", "Preempting"));
    assert_eq!(
        (eviction.message.as_str(), eviction.grace),
        ("Preempted in order to admit critical pod", None)
    );
    let decision = world.decisions.lock().remove(0);
    assert_eq!(decision.outcome, "n/large make way for n/critical");
    let seen: Vec<_> = decision.candidates.iter().map(|c| (c.name.as_str(), c.request, c.chosen)).collect();
    assert_eq!(seen, [("large", 6, true), ("small", 4, false)]);
    let signal = &decision.signals[0];
    assert_eq!((signal.signal.as_str(), signal.available, signal.threshold), (CPU, 0, 5));
    assert!(waits(&critical));
    world.admission.release("large");
    assert!(!waits(&critical));
    critical.taken();
    let more = world.admission.ask(&pod("more", CRITICAL, 7, 0));
    assert!(waits(&more) && world.evicted.lock().is_empty());
    let decision = world.decisions.lock().remove(0);
    assert_eq!(decision.candidates.iter().filter(|own| own.spared.is_empty()).count(), 1);
    assert!(decision.outcome.ends_with("reclaim resources: [(res: cpu, q: 2), ]"), "{}", decision.outcome);
}

#[test]
fn two_never_take_the_last() {
    let world = World::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let admission = &world.admission;
            scope.spawn(move || {
                for round in 0..200 {
                    let uid = format!("{thread}-{round}");
                    let waiter = admission.ask(&pod(&uid, round % 3, 4, 0));
                    if !waits(&waiter) {
                        waiter.taken();
                        assert!(admission.held(CPU) <= 10);
                        admission.release(&uid);
                    }
                }
            });
        }
    });
    assert_eq!((world.admission.held(CPU), world.admission.waiting().len()), (0, 0));
}
