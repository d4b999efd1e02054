//! What is kept after a change of the settings or of the CPUs that are online.

use nodewarden_topology::fixture::Shape;

use super::*;
use crate::{Options, StateFile};

const SHAPE: Shape = Shape { sockets: 1, nodes: 1, caches: 1, cores: 4, threads: 2, threads_last: true };

fn cpus(text: &str) -> CpuSet {
    CpuSet::parse(text).unwrap()
}

fn saved(containers: &[(&str, &str, &str)]) -> Assignments {
    let mut saved = Assignments::default();
    containers.iter().for_each(|(pod, container, own)| saved.set(pod, container, cpus(own)));
    saved
}

fn settings(reserved: &str, strict: bool) -> Settings {
    let options = Options { strict, ..Options::default() };
    Settings { policy: Policy::Static, options, reserved: cpus(reserved), pod_level: false }
}

/// Restores on 8 CPUs without `offline`: what is shared, and what was found.
fn restored(settings: Settings, offline: u32, saved: &Assignments) -> (CpuManager, Vec<String>) {
    let topology = SHAPE.topology(|cpu| cpu == offline);
    let (manager, findings) = CpuManager::restore(topology, settings, saved);
    (manager, findings.iter().map(ToString::to_string).collect())
}

const NONE_OFFLINE: u32 = 99;

#[test]
fn nothing_changed() {
    let (manager, findings) = restored(settings("0", false), NONE_OFFLINE, &saved(&[("p", "c", "1,5")]));
    assert_eq!((manager.shared(), findings), (cpus("0,2-4,6-7"), vec![]));
    assert_eq!(manager.cpus_of("p", "c"), cpus("1,5"));
    assert_eq!(manager.cpus_of("p", "other"), cpus("0,2-4,6-7"));
}

#[test]
fn cpus_that_are_reserved_now_stay_until_the_container_ends() {
    for (strict, shared_then, shared_later) in [(false, "0,2-4,6-7", "0-7"), (true, "0,2-4,6-7", "0,2-7")] {
        let (mut manager, findings) =
            restored(settings("1", strict), NONE_OFFLINE, &saved(&[("p", "c", "1,5")]));
        assert_eq!(
            findings,
            ["pod p, container c: CPUs 1 are reserved now; it keeps them until it ends"],
            "strict: {strict}"
        );
        assert_eq!(manager.shared(), cpus(shared_then), "strict: {strict}");
        manager.remove("p", "c");
        assert_eq!(manager.shared(), cpus(shared_later), "strict: {strict}");
    }
}

#[test]
fn a_container_keeps_the_cpus_that_are_online() {
    let all = saved(&[("p", "c", "1,5"), ("p", "d", "5"), ("q", "c", "2")]);
    let (manager, findings) = restored(settings("0", false), 5, &all);
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].contains("container c: CPUs 5 of its own are not online"), "{findings:?}");
    assert_eq!(manager.cpus_of("p", "c"), cpus("1"));
    assert_eq!(manager.assignments().get("p", "d"), None, "it shares CPUs");
    assert_eq!(manager.shared(), cpus("0,3-4,6-7"));
}

#[test]
fn cpus_of_two_pods_stay_with_one() {
    let (manager, findings) =
        restored(settings("0", false), NONE_OFFLINE, &saved(&[("p", "c", "1,5"), ("q", "c", "5-6")]));
    assert_eq!(findings, ["pod q, container c: CPUs 5 belong to another pod"]);
    assert_eq!((manager.cpus_of("p", "c"), manager.cpus_of("q", "c")), (cpus("1,5"), cpus("6")));
}

#[test]
fn without_a_policy_all_cpus_are_shared() {
    let none = Settings::default();
    let (manager, findings) = restored(none, NONE_OFFLINE, &saved(&[("p", "c", "1,5")]));
    assert!(findings[0].contains("no longer its own: the CPU manager policy is none"), "{findings:?}");
    assert_eq!((manager.shared(), manager.assignments()), (cpus("0-7"), &Assignments::default()));
    let written = StateFile::of(&manager).write(false);
    assert!(written.starts_with(r#"{"policyName":"none","defaultCpuSet":"","checksum":"#), "{written}");
}

#[test]
fn when_every_cpu_is_assigned_the_reserved_ones_are_shared() {
    let (manager, findings) = restored(settings("0", true), NONE_OFFLINE, &saved(&[("p", "c", "1-7")]));
    assert!(findings[0].contains("run on the reserved ones"), "{findings:?}");
    assert_eq!(manager.shared(), cpus("0"));
}
