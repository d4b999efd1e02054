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

/// A node with ten thousandths of a CPU and room for a hundred pods.
struct Fixture {
    admission: Admission,
    gpus: Arc<AtomicI64>,
    pressure: watch::Sender<Pressure>,
    evicted: Arc<Mutex<Vec<(String, Eviction)>>>,
    decisions: Arc<Mutex<Vec<Decision>>>,
}

impl Fixture {
    fn new() -> Self {
        let gpus = Arc::new(AtomicI64::new(0));
        let (evicted, decisions) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (pressure, pressed) = watch::channel(Pressure::default());
        let capacity = [(CPU, 10), (PODS, 100)].map(|(name, n)| (name.to_owned(), n)).into();
        let (count, evictions, explained) = (gpus.clone(), evicted.clone(), decisions.clone());
        let admission = Admission::new(Deps {
            node: Node { capacity, ..Node::default() },
            devices: Arc::new(move |_, _| Some(count.load(Ordering::Relaxed))),
            pressure: pressed,
            evict: Arc::new(move |uid, eviction| evictions.lock().push((uid.to_owned(), eviction))),
            explain: Explain::new(move |decision| explained.lock().push(decision)),
        });
        Self { admission, gpus, pressure, evicted, decisions }
    }

    fn admit(&self, pod: &Arc<Pod>) {
        let waiter = self.admission.ask(pod);
        assert_eq!(waiter.state(), AdmissionState::Admitted);
        waiter.taken();
    }
}

async fn rings(waiter: &Waiter) -> bool {
    tokio::time::timeout(Duration::from_millis(50), waiter.news()).await.is_ok()
}

fn waits(waiter: &Waiter) -> bool {
    matches!(waiter.state(), AdmissionState::Waits(_))
}

#[tokio::test]
async fn only_pods_that_can_start_are_woken() {
    let fixture = Fixture::new();
    fixture.admit(&pod("a", 0, 10, 0));
    let [b, c, d] = ["b", "c", "d"].map(|uid| fixture.admission.ask(&pod(uid, 0, 5, 0)));
    // The reason for waiting is notified once.
    assert!(rings(&b).await && rings(&c).await && rings(&d).await);
    assert!(!rings(&b).await);
    fixture.admission.release("a");
    assert!(rings(&b).await && rings(&c).await && !rings(&d).await);
    assert!(!waits(&b) && !waits(&c) && waits(&d));
    b.taken();
    c.taken();
    assert_eq!(fixture.admission.waiting().len(), 1);
    d.again();
    assert!(waits(&d) && !rings(&d).await);
}

#[tokio::test]
async fn a_dropped_waiter_releases_its_resources() {
    let fixture = Fixture::new();
    fixture.admit(&pod("a", 0, 10, 0));
    let b = fixture.admission.ask(&pod("b", 0, 10, 0));
    let c = fixture.admission.ask(&pod("c", 0, 10, 0));
    fixture.admission.release("a");
    assert!(!waits(&b) && waits(&c));
    drop(b);
    assert!(!waits(&c));
    drop(c);
    assert_eq!(fixture.admission.held(CPU), 0);
    fixture.admit(&pod("d", 0, 10, 0));
    // A second request finds it admitted, and dropping that one releases nothing.
    drop(fixture.admission.ask(&pod("d", 0, 10, 0)));
    assert_eq!(fixture.admission.held(CPU), 10);
}

#[tokio::test]
async fn devices_and_conditions_wake() {
    let fixture = Fixture::new();
    let changes = watch::Sender::new(0_u64);
    let follow = tokio::spawn(fixture.admission.clone().follow(changes.subscribe()));
    let gpu = fixture.admission.ask(&pod("gpu", 0, 1, 1));
    assert!(rings(&gpu).await && waits(&gpu));
    fixture.gpus.store(1, Ordering::Relaxed);
    changes.send_modify(|n| *n += 1);
    assert!(rings(&gpu).await && !waits(&gpu));
    fixture.pressure.send_modify(|own| {
        own.0.insert(NodeCondition::PidPressure, Timestamp::UNIX_EPOCH);
    });
    let plain = fixture.admission.ask(&pod("plain", 0, 1, 0));
    assert!(rings(&plain).await && waits(&plain));
    fixture.pressure.send_modify(|own| own.0.clear());
    assert!(rings(&plain).await && !waits(&plain));
    drop(changes);
    follow.await.unwrap();
}

#[tokio::test]
async fn victims_are_reported_and_explained() {
    let fixture = Fixture::new();
    fixture.admit(&pod("small", 0, 4, 0));
    fixture.admit(&pod("large", 0, 6, 0));
    let critical = fixture.admission.ask(&pod("critical", CRITICAL, 5, 0));
    let evicted = std::mem::take(&mut *fixture.evicted.lock());
    let (uid, eviction) = &evicted[0];
    assert_eq!(
        (evicted.len(), uid.as_str(), eviction.reason.to_string().as_str()),
        (1, "large", "Preempting")
    );
    assert_eq!(
        (eviction.message.as_str(), eviction.grace),
        ("Preempted in order to admit critical pod", None)
    );
    let decision = fixture.decisions.lock().remove(0);
    assert_eq!(decision.outcome, "n/large preempted for n/critical");
    let seen: Vec<_> = decision.candidates.iter().map(|c| (c.name.as_str(), c.request, c.chosen)).collect();
    assert_eq!(seen, [("large", 6, true), ("small", 4, false)]);
    let signal = &decision.signals[0];
    assert_eq!((signal.signal.as_str(), signal.available, signal.threshold), (CPU, 0, 5));
    assert!(waits(&critical));
    fixture.admission.release("large");
    assert!(!waits(&critical));
    critical.taken();
    let more = fixture.admission.ask(&pod("more", CRITICAL, 7, 0));
    assert!(waits(&more) && fixture.evicted.lock().is_empty());
    let decision = fixture.decisions.lock().remove(0);
    assert_eq!(decision.candidates.iter().filter(|own| own.spared.is_empty()).count(), 1);
    assert!(decision.outcome.ends_with("reclaim resources: [(res: cpu, q: 2), ]"), "{}", decision.outcome);
}

#[test]
fn two_pods_never_take_the_last_of_a_resource() {
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let admission = &fixture.admission;
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
    assert_eq!((fixture.admission.held(CPU), fixture.admission.waiting().len()), (0, 0));
}

/// A pod that requests these amounts.
fn requesting(uid: &str, requests: serde_json::Value) -> Arc<Pod> {
    let containers = json!([{"name": "c", "resources": {"requests": requests}}]);
    let manifest =
        json!({"metadata": {"namespace": "n", "name": uid, "uid": uid}, "spec": {"containers": containers}});
    Arc::new(Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap())
}

/// CPUs came online, or huge pages were reserved: who waited for them starts, and is notified.
#[tokio::test]
async fn a_pod_that_waits_for_more_than_there_is_starts_when_the_node_has_grown() {
    let fixture = Fixture::new();
    let capacity = |cpu: i64, huge: i64| {
        [(CPU, cpu), (PODS, 100), ("hugepages-2Mi", huge)].map(|(name, n)| (name.to_owned(), n)).into()
    };
    let (large, huge) =
        (requesting("large", json!({"cpu": "20m"})), requesting("huge", json!({"hugepages-2Mi": "4Mi"})));
    let [waits_cpu, waits_huge] = [&large, &huge].map(|pod| fixture.admission.ask(pod));
    for waiter in [&waits_cpu, &waits_huge] {
        assert!(matches!(waiter.state(), AdmissionState::Waits(_)));
    }
    fixture.admission.set_capacity(capacity(30, 0));
    assert!(rings(&waits_cpu).await);
    assert_eq!(waits_cpu.state(), AdmissionState::Admitted);
    assert!(matches!(waits_huge.state(), AdmissionState::Waits(_)));
    fixture.admission.set_capacity(capacity(30, 4 << 20));
    assert_eq!(waits_huge.state(), AdmissionState::Admitted);
    waits_cpu.taken();
    // Less than runs: nothing happens to what runs, and nothing more starts.
    fixture.admission.set_capacity(capacity(10, 4 << 20));
    let small = fixture.admission.ask(&requesting("small", json!({"cpu": "1m"})));
    assert!(matches!(small.state(), AdmissionState::Waits(_)));
    assert_eq!(fixture.admission.held(CPU), 20);
    assert!(fixture.evicted.lock().is_empty());
    // A resize goes by the same.
    let grown = requesting("large", json!({"cpu": "25m"}));
    assert!(matches!(fixture.admission.resizing(&grown), Err(NoGrowth::Infeasible { .. })));
    fixture.admission.set_capacity(capacity(26, 4 << 20));
    assert_eq!(fixture.admission.resizing(&grown), Ok(()));
}
