//! Throttled levels on this machine's kernel.

use std::time::{Duration, Instant};

use crate::fixture::{Fixture, keep, pod};
use crate::throttle::{ThrottleOverride, ThrottleOverrides};
use nodewarden_machine::cgroup::control::{Bound, CpuQuota, Limits};
use nodewarden_manifest::QosClass;

const PATIENCE: Duration = Duration::from_secs(20);
const QUOTA: CpuQuota = CpuQuota { quota_us: Bound::At(4_000), period_us: 20_000 };

fn overrides(idle: bool) -> ThrottleOverrides {
    let best_effort =
        ThrottleOverride { cpu_idle: idle, cpu_quota: Some(QUOTA), memory_high: Some(64 << 20) };
    ThrottleOverrides {
        best_effort,
        burstable: ThrottleOverride { memory_high: Some(1 << 20), ..ThrottleOverride::default() },
    }
}

/// Waits until a level's limits satisfy `so`, and returns them.
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

fn throttled(limits: &Limits) -> bool {
    limits.cpu_quota == Some(QUOTA)
}

#[test]
fn overrides_are_kept_and_undone_completely() {
    let Some(f) = Fixture::make("throttled") else { return };
    let hierarchy = f.start(keep(&[]));
    let own = f.manager.read(&f.level(QosClass::BestEffort)).unwrap();
    let idle = hierarchy.throttle_targets().idle;
    for idle in [false, idle] {
        hierarchy.handle().throttle(overrides(idle));
        let found = until(&f, QosClass::BestEffort, "throttled", |l| {
            throttled(l) && (!idle || l.cpu_idle == Some(true))
        });
        if hierarchy.throttle_targets().memory_high {
            assert_eq!(found.memory_high, Some(Bound::At(64 << 20)));
        }
        // A change of the pods does not undo the override.
        hierarchy.handle().send(keep([&pod("a", "100m")]));
        let mut places = hierarchy.pod_cgroups();
        f.runtime.block_on(places.wait_for(|p| p.contains_key("a"))).unwrap();
        assert!(throttled(&f.manager.read(&f.level(QosClass::BestEffort)).unwrap()));
        hierarchy.handle().throttle(ThrottleOverrides::default());
        until(&f, QosClass::BestEffort, "as it was", |l| *l == own);
    }
    assert_eq!(hierarchy.status().read().corrections, 0, "it is ours");
    hierarchy.handle().throttle(overrides(idle));
    drop(hierarchy);
    assert_eq!(
        f.manager.read(&f.level(QosClass::BestEffort)).unwrap(),
        own,
        "restored when the manager ends"
    );
}

/// As after SIGKILL of the agent while levels are throttled.
#[test]
fn a_starting_agent_undoes_the_overrides_of_a_killed_one() {
    let Some(f) = Fixture::make("throttled-died") else { return };
    let own = {
        let _tasks = f.start(keep(&[]));
        f.manager.read(&f.level(QosClass::BestEffort)).unwrap()
    };
    let hierarchy = f.start(keep(&[]));
    let idle = hierarchy.throttle_targets().idle;
    drop(hierarchy);
    let left = Limits {
        cpu_idle: idle.then_some(true),
        cpu_quota: Some(QUOTA),
        memory_high: own.memory_high.map(|_| Bound::At(64 << 20)),
        ..Limits::default()
    };
    f.manager.set(&f.level(QosClass::BestEffort), &left).unwrap();
    let _tasks = f.start(keep(&[]));
    assert_eq!(f.manager.read(&f.level(QosClass::BestEffort)).unwrap(), own);
}

#[test]
fn the_override_of_burstable_is_not_below_its_requests() {
    let Some(f) = Fixture::make("throttled-requests") else { return };
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: a}\nspec: {containers: [{name: c, image: i, \
                resources: {requests: {memory: 40Mi}}}]}";
    let a = std::sync::Arc::new(nodewarden_manifest::manifest::parse(text).remove(0).unwrap());
    let mut reconciler = f.reconciler();
    reconciler.begin(keep([&a]));
    reconciler.throttle(overrides(false));
    // Facts of v2 on any machine: nothing is written.
    reconciler.setup.facts.version = nodewarden_machine::cgroup::Version::V2;
    reconciler.measure();
    let wanted = reconciler.wanted().unwrap();
    let high = |class| wanted.exact[&*reconciler.level(class)].memory_high;
    assert_eq!(high(QosClass::Burstable), Some(Bound::At(40 << 20)));
    assert_eq!(high(QosClass::BestEffort), Some(Bound::At(64 << 20)));
    assert_eq!(wanted.exact[&*f.path(&a)].memory_high, Some(Bound::Max));
}
