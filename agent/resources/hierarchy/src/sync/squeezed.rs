//! Levels that are held back, on this machine's kernel.

use std::time::{Duration, Instant};

use crate::fixture::{Fixture, keep, pod};
use crate::overlay::{Overlay, Squeeze};
use nodewarden_machine::cgroup::control::{Bound, CpuQuota, Limits};
use nodewarden_manifest::QosClass;

const PATIENCE: Duration = Duration::from_secs(20);
const QUOTA: CpuQuota = CpuQuota { quota_us: Bound::At(4_000), period_us: 20_000 };

fn overlay(idle: bool) -> Overlay {
    let best_effort = Squeeze { cpu_idle: idle, cpu_quota: Some(QUOTA), memory_high: Some(64 << 20) };
    Overlay { best_effort, burstable: Squeeze { memory_high: Some(1 << 20), ..Squeeze::default() } }
}

/// Waits until a level's limits are so.
fn until(f: &Fixture, class: QosClass, what: &str, so: impl Fn(&Limits) -> bool) -> Limits {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = f.manager.read(&f.level(class)).unwrap();
        if so(&found) {
            return found;
        }
        assert!(Instant::now() < deadline, "never {what}: {found:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn squeezed(limits: &Limits) -> bool {
    limits.cpu_quota == Some(QUOTA)
}

#[test]
fn what_is_held_back_is_kept_and_given_back_whole() {
    let Some(f) = Fixture::make("squeezed") else { return };
    let keeper = f.start(keep(&[]));
    let own = f.manager.read(&f.level(QosClass::BestEffort)).unwrap();
    let idle = keeper.squeezable().idle;
    for idle in [false, idle] {
        keeper.sink().overlay(overlay(idle));
        let found = until(&f, QosClass::BestEffort, "squeezed", |l| {
            squeezed(l) && (!idle || l.cpu_idle == Some(true))
        });
        if keeper.squeezable().memory_high {
            assert_eq!(found.memory_high, Some(Bound::At(64 << 20)));
        }
        // A change of the pods is no reason to give anything back.
        keeper.sink().send(keep([&pod("a", "100m")]));
        let mut places = keeper.places();
        f.runtime.block_on(places.wait_for(|p| p.contains_key("a"))).unwrap();
        assert!(squeezed(&f.manager.read(&f.level(QosClass::BestEffort)).unwrap()));
        keeper.sink().overlay(Overlay::default());
        until(&f, QosClass::BestEffort, "as it was", |l| *l == own);
    }
    assert_eq!(keeper.status().lock().corrections, 0, "it is ours");
    keeper.sink().overlay(overlay(idle));
    drop(keeper);
    assert_eq!(
        f.manager.read(&f.level(QosClass::BestEffort)).unwrap(),
        own,
        "given back when the keeper ends"
    );
}

/// As after a kill -9 in the middle of it.
#[test]
fn an_agent_that_starts_gives_back_what_another_held() {
    let Some(f) = Fixture::make("squeezed-died") else { return };
    let own = {
        let _keeper = f.start(keep(&[]));
        f.manager.read(&f.level(QosClass::BestEffort)).unwrap()
    };
    let keeper = f.start(keep(&[]));
    let idle = keeper.squeezable().idle;
    drop(keeper);
    let left = Limits {
        cpu_idle: idle.then_some(true),
        cpu_quota: Some(QUOTA),
        memory_high: own.memory_high.map(|_| Bound::At(64 << 20)),
        ..Limits::default()
    };
    f.manager.set(&f.level(QosClass::BestEffort), &left).unwrap();
    let _keeper = f.start(keep(&[]));
    assert_eq!(f.manager.read(&f.level(QosClass::BestEffort)).unwrap(), own);
}

#[test]
fn burstable_keeps_what_its_pods_request() {
    let Some(f) = Fixture::make("squeezed-requests") else { return };
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: a}\nspec: {containers: [{name: c, image: i, \
                resources: {requests: {memory: 40Mi}}}]}";
    let a = std::sync::Arc::new(nodewarden_manifest::manifest::parse(text).remove(0).unwrap());
    let mut syncer = f.syncer();
    syncer.begin(keep([&a]));
    syncer.overlay(overlay(false));
    // Facts of v2, whatever this machine has: nothing is written.
    syncer.setup.facts.version = nodewarden_machine::cgroup::Version::V2;
    syncer.measure();
    let wanted = syncer.wanted().unwrap();
    let high = |class| wanted.told[&syncer.level(class)].memory_high;
    assert_eq!(high(QosClass::Burstable), Some(Bound::At(40 << 20)));
    assert_eq!(high(QosClass::BestEffort), Some(Bound::At(64 << 20)));
    assert_eq!(wanted.told[&f.path(&a)].memory_high, Some(Bound::Max));
}
