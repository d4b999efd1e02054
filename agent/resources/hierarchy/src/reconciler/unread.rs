//! Cgroups that a full reconcile need not read, on this machine's kernel.

use std::sync::Arc;

use super::*;
use crate::fixture::{Fixture, elsewhere, eventually, keep, pod};
use crate::touched::ALL_EVERY;
use nodewarden_machine::cgroup::control::{Bound, CpuShare};
use nodewarden_model::{ContainerNames, Identity};

/// A pod and its container that were compared; `None` where the kernel does not report writes.
fn compared(f: &Fixture) -> Option<(Reconciler, Destroyer, [String; 2])> {
    let mut reconciler = f.reconciler();
    if !reconciler.touched.reports() {
        nodewarden_testing::skip("this kernel does not report writes to cgroups (before Linux 6.8)");
        return None;
    }
    reconciler.setup.namer = Box::new(|identity| {
        let mut named = (**identity).clone();
        if let Identity::Container { names, .. } = &mut named {
            *names = Some(ContainerNames { name: "c".into(), image: "i".into() }.into());
        }
        Arc::new(named)
    });
    let mut destroyer = Destroyer::start(&f.manager, |_| {}).unwrap();
    let small = pod("a", "100m");
    let container = format!("{}/{}", f.path(&small), "c0".repeat(32));
    reconciler.begin(keep([&small]));
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    let limits = Limits { cpu: Some(CpuShare::Shares(102)), ..Limits::default() };
    elsewhere(|| f.manager.create(&container, &limits)).unwrap();
    // It is seen, compared, and no longer new.
    for _ in 1..ALL_EVERY {
        reconciler.reconcile(Reconcile::Full, &mut destroyer);
    }
    Some((reconciler, destroyer, [f.path(&small), container]))
}

fn shares(f: &Fixture, path: &str) -> Option<CpuShare> {
    f.manager.read(path).unwrap().cpu
}

fn set(f: &Fixture, path: &str, shares: u64) -> Option<CpuShare> {
    let limits = Limits { cpu: Some(CpuShare::Shares(shares)), ..Limits::default() };
    elsewhere(|| f.manager.set(path, &limits)).unwrap();
    f.manager.settled(&limits).cpu
}

#[test]
fn what_was_written_to_is_corrected_by_the_next_full_reconcile() {
    let Some(f) = Fixture::make("written") else { return };
    let Some((mut reconciler, mut destroyer, paths)) = compared(&f) else { return };
    let right = paths.each_ref().map(|path| shares(&f, path));
    for _ in 0..2 * ALL_EVERY {
        let wrong = paths.each_ref().map(|path| set(&f, path, 500));
        assert_ne!(wrong, right);
        reconciler.reconcile(Reconcile::Full, &mut destroyer);
        assert_eq!(paths.each_ref().map(|path| shares(&f, path)), right);
    }
}

#[test]
fn what_the_reconciler_wrote_is_not_read_again() {
    let Some(f) = Fixture::make("own-writes") else { return };
    let Some((mut reconciler, mut destroyer, [path, _])) = compared(&f) else { return };
    let limits = Limits { cpu: Some(CpuShare::Shares(500)), ..Limits::default() };
    let right = shares(&f, &path);
    reconciler.touched.doubt();
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    // As a write of the reconciler, on its thread.
    f.manager.set(&path, &limits).unwrap();
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    assert_ne!(shares(&f, &path), right, "it was read");
    // The kernel has one report for each thread that writes.
    set(&f, &path, 600);
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    assert_eq!(shares(&f, &path), right);
}

#[test]
fn what_was_not_written_to_is_read_by_every_fifteenth_full_reconcile() {
    let Some(f) = Fixture::make("unread") else { return };
    let Some((mut reconciler, mut destroyer, paths)) = compared(&f) else { return };
    let right = paths.each_ref().map(|path| shares(&f, path));
    reconciler.touched.doubt();
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    let wrong = paths.each_ref().map(|path| set(&f, path, 500));
    // As if the kernel had not reported it.
    reconciler.touched.forget();
    for _ in 1..ALL_EVERY {
        reconciler.reconcile(Reconcile::Full, &mut destroyer);
        assert_eq!(paths.each_ref().map(|path| shares(&f, path)), wrong);
    }
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    assert_eq!(paths.each_ref().map(|path| shares(&f, path)), right);
}

#[test]
fn wanted_limits_are_computed_again_only_after_a_change() {
    let Some(f) = Fixture::make("lasting") else { return };
    let (a, b) = (pod("a", "100m"), pod("b", "200m"));
    let mut reconciler = f.reconciler();
    let mut destroyer = Destroyer::start(&f.manager, |_| {}).unwrap();
    reconciler.begin(keep([&a]));
    let mut is_same = |change: &dyn Fn(&mut Reconciler)| {
        let before = reconciler.wanted.clone();
        change(&mut reconciler);
        reconciler.reconcile(Reconcile::Full, &mut destroyer);
        Arc::ptr_eq(&before, &reconciler.wanted)
    };
    assert!(!is_same(&|_| {}), "the first");
    for _ in 0..2 {
        assert!(is_same(&|_| {}));
        assert!(!is_same(&|own| own.keep(keep([&a, &b]))));
        assert!(is_same(&|_| {}));
        assert!(!is_same(&|own| own.throttle(ThrottleOverrides::default())));
    }
}

#[test]
fn a_removed_pod_cgroup_is_made_again_without_a_write_to_it() {
    let Some(f) = Fixture::make("removed") else { return };
    let Some((mut reconciler, mut destroyer, [path, _])) = compared(&f) else { return };
    let right = shares(&f, &path);
    for _ in 0..ALL_EVERY {
        f.manager.destroy(&path, Duration::from_secs(20)).unwrap();
        reconciler.reconcile(Reconcile::Full, &mut destroyer);
        assert_eq!(shares(&f, &path), right);
    }
}

#[test]
fn a_memory_limit_that_waits_is_tried_by_every_full_reconcile_and_reported_once() {
    let Some(f) = Fixture::make("waits") else { return };
    let limited = |bytes: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: a, uid: a}}, spec: {{containers: [{{name: c, image: i, \
             resources: {{limits: {{memory: {bytes}}}}}}}]}}}}"
        );
        Arc::new(nodewarden_manifest::manifest::parse(&text).remove(0).unwrap())
    };
    let mut reconciler = f.reconciler();
    let mut destroyer = Destroyer::start(&f.manager, |_| {}).unwrap();
    let wide = limited("512Mi");
    let path = f.path(&wide);
    reconciler.begin(keep([&wide]));
    reconciler.reconcile(Reconcile::Full, &mut destroyer);
    let inside = path.strip_prefix(&f.tree.path("")).unwrap().trim_start_matches('/');
    let pid = f.tree.run(inside, "{ head -c 60000000 /dev/zero; sleep 600; } | tail -n 1");
    eventually("the process uses its memory", || {
        f.manager.memory_in_use(&path).unwrap().is_some_and(|used| used > 60_000_000)
    });
    reconciler.keep(keep([&limited("32Mi")]));
    reconciler.reconcile(Reconcile::Partial, &mut destroyer);
    let problem = |reconciler: &Reconciler| reconciler.problems.about(&path);
    for _ in 0..2 * ALL_EVERY {
        assert!(problem(&reconciler).contains("waits"), "{:?}", problem(&reconciler));
        // As if the kernel had reported nothing, not even what this agent wrote itself.
        reconciler.touched.forget();
        reconciler.reconcile(Reconcile::Full, &mut destroyer);
    }
    let deferred = |event: &nodewarden_model::Event| format!("{:?}", event.detail).contains("LimitDeferred");
    assert_eq!(f.events().iter().filter(|event| deferred(event)).count(), 1);

    f.tree.stop(pid);
    for pid in f.manager.pids(&path).unwrap() {
        // One that has ended by itself is as good.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
    eventually("the limit is set", || {
        reconciler.touched.forget();
        reconciler.reconcile(Reconcile::Full, &mut destroyer);
        f.manager.read(&path).unwrap().memory_max == Some(Bound::At(32 << 20))
    });
    assert_eq!(problem(&reconciler), "");
}
