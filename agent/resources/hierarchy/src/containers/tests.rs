use super::*;
use nodewarden_config::NodeSettings;
use nodewarden_machine::cgroup::control::Bound;
use nodewarden_machine::node::Capacity;
use nodewarden_manifest::manifest;
use nodewarden_model::ContainerNames;
use nodewarden_qos::fixture::V2;
use nodewarden_qos::weight::{weight_linear, weight_quadratic};

const SHARES: u64 = 512;

fn pod() -> Pod {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, \
                resources: {requests: {cpu: 500m}, limits: {memory: 64Mi}}}]}";
    manifest::parse(text).remove(0).unwrap()
}

fn wanted_of(weight: u64, evidence: &mut FormulaEvidence) -> Limits {
    let capacity = Capacity { cpu_milli: 2000, memory_bytes: 1 << 30, ..Capacity::default() };
    let settings = NodeSettings::default();
    let node = Node { settings: &settings, capacity: &capacity, facts: &V2 };
    let found = Limits { cpu: Some(CpuShare::Weight(weight)), ..Limits::default() };
    wanted(&pod(), &ContainerKind::Named("c".into()), &found, evidence, node).unwrap()
}

#[test]
fn a_weight_of_either_formula_is_accepted() {
    for (runtimes, other) in
        [(weight_linear(SHARES), weight_quadratic(SHARES)), (weight_quadratic(SHARES), weight_linear(SHARES))]
    {
        let mut evidence = FormulaEvidence::default();
        for weight in [runtimes, other, runtimes] {
            assert_eq!(wanted_of(weight, &mut evidence).cpu, Some(CpuShare::Weight(weight)));
        }
    }
}

#[test]
fn another_weight_is_corrected_by_the_formula_that_was_seen() {
    for seen in [weight_linear(SHARES), weight_quadratic(SHARES)] {
        let mut evidence = FormulaEvidence::default();
        assert_eq!(wanted_of(7777, &mut evidence).cpu, None, "before any was seen");
        wanted_of(seen, &mut evidence);
        assert_eq!(wanted_of(7777, &mut evidence).cpu, Some(CpuShare::Weight(seen)));
    }
}

#[test]
fn limits_are_those_that_the_runtime_was_given() {
    let limits = wanted_of(1, &mut FormulaEvidence::default());
    assert_eq!(limits.memory_max, Some(Bound::At(64 << 20)));
    assert_eq!(limits.oom_group, Some(true));
    assert_eq!(limits.pids_max, None, "the runtime's own");
}

#[test]
fn only_containers_that_the_runtime_named_are_known() {
    let path = format!("/kubepods/burstable/podu/{}", "c0".repeat(32));
    let unnamed: Namer = Box::new(Arc::clone);
    assert_eq!(container_at(&path, &unnamed), None);
    let namer: Namer = Box::new(|identity| {
        let mut named = (**identity).clone();
        if let Identity::Container { names, .. } = &mut named {
            *names = Some(ContainerNames { name: "c".into(), image: "i".into() }.into());
        }
        Arc::new(named)
    });
    assert_eq!(container_at(&path, &namer), Some(ContainerKind::Named("c".into())));
    assert_eq!(container_at("/kubepods/burstable/podu", &namer), None);
}
