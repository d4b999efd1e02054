use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::amounts::{PODS, wants};
use super::*;

const GPU: &str = "a.b/gpu";
const MI: i64 = 1 << 20;
const CLUSTER: i32 = 2_000_000_000;

/// CPU in thousandths and memory in Mi, both 0 for BestEffort.
fn pod(name: &str, cpu: i64, memory: i64, limits: bool, priority: i32) -> Pod {
    pod_of(name, json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")}), limits, priority)
}

fn pod_of(name: &str, requests: Value, limits: bool, priority: i32) -> Pod {
    let limits = if limits { requests.clone() } else { json!({}) };
    let resources = json!({"requests": requests, "limits": limits});
    let spec = json!({"priority": priority, "containers": [{"name": "c", "resources": resources}]});
    let manifest = json!({"metadata": {"name": name, "uid": name}, "spec": spec});
    Pod::unchecked(serde_json::from_value(manifest).unwrap()).unwrap()
}

fn known(name: &str) -> Pod {
    match name {
        "best-effort" => pod(name, 0, 0, false, 0),
        "burstable" => pod(name, 100, 100, false, 0),
        "high-burstable" => pod(name, 300, 300, false, 0),
        "guaranteed" => pod(name, 100, 100, true, 0),
        "high-guaranteed" => pod(name, 300, 300, true, 0),
        "cluster-critical" => pod(name, 100, 100, false, CLUSTER),
        "node-critical" => pod(name, 100, 100, false, CLUSTER + 1000),
        other => panic!("{other}"),
    }
}

fn missing(cpu: i64, memory: i64, pods: i64) -> Amounts {
    let all = [(CPU, cpu), (MEMORY, memory * MI), (PODS, pods)];
    all.into_iter().filter(|(_, n)| *n > 0).map(|(name, n)| (name.to_owned(), n)).collect()
}

fn run(preemptor: &Pod, pods: &[Pod], missing: &Amounts) -> Result<Vec<usize>, Amounts> {
    let held: Vec<Amounts> = pods.iter().map(wants).collect();
    let held: Vec<Held<'_>> = pods.iter().zip(&held).map(|(pod, held)| Held { pod, held }).collect();
    select_victims(preemptor, &held, missing)
}

#[test]
fn victims() {
    let all = ["best-effort", "burstable", "high-burstable", "guaranteed", "high-guaranteed"];
    let with_critical =
        ["cluster-critical", "best-effort", "burstable", "high-burstable", "guaranteed", "high-guaranteed"];
    let cluster = "cluster-critical";
    for (what, preemptor, pods, (cpu, memory, count), expected) in [
        ("nothing is missing", cluster, &[][..], (0, 0, 0), Some(&[][..])),
        ("there is no pod", cluster, &[], (0, 0, 1), None),
        ("exactly what is missing", cluster, &["burstable"], (100, 100, 1), Some(&["burstable"])),
        ("more is missing", cluster, &["burstable"], (200, 200, 2), None),
        (
            "best effort before burstable",
            cluster,
            &["burstable", "best-effort"],
            (0, 0, 1),
            Some(&["best-effort"]),
        ),
        (
            "burstable before guaranteed",
            cluster,
            &["burstable", "guaranteed"],
            (0, 0, 1),
            Some(&["burstable"]),
        ),
        (
            "the smaller that does",
            cluster,
            &["best-effort", "high-burstable", "burstable"],
            (100, 100, 0),
            Some(&["burstable"]),
        ),
        (
            "the larger where the smaller does not",
            cluster,
            &["best-effort", "burstable", "high-burstable"],
            (150, 150, 0),
            Some(&["high-burstable"]),
        ),
        ("several", cluster, &all, (350, 350, 0), Some(&["high-burstable", "burstable"])),
        (
            "guaranteed where it must be, burstable only as needed",
            cluster,
            &all,
            (0, 550, 0),
            Some(&["high-burstable", "high-guaranteed"]),
        ),
        (
            "next to a critical one",
            cluster,
            &with_critical,
            (0, 550, 0),
            Some(&["high-burstable", "high-guaranteed"]),
        ),
        ("a critical one of the same priority", cluster, &[cluster], (0, 0, 1), None),
        ("best effort has nothing to give", cluster, &["best-effort"], (0, 1, 0), None),
        ("the higher takes from the lower", "node-critical", &[cluster], (100, 0, 0), Some(&[cluster])),
        ("and not the other way", cluster, &["node-critical"], (100, 0, 0), None),
    ] {
        let pods: Vec<Pod> = pods.iter().map(|name| known(name)).collect();
        let chosen = run(&known(preemptor), &pods, &missing(cpu, memory, count)).ok();
        let names = chosen.map(|chosen| chosen.iter().map(|i| pods[*i].name.clone()).collect::<Vec<_>>());
        assert_eq!(names, expected.map(|names| names.iter().map(|n| (*n).to_owned()).collect()), "{what}");
    }
}

#[test]
fn what_is_still_missing_is_returned() {
    let unable = run(&known("cluster-critical"), &[known("burstable")], &missing(150, 100, 2)).unwrap_err();
    assert_eq!(unable, missing(50, 0, 1));
}

#[test]
fn devices_count() {
    let gpu = |name: &str, count: i64| pod_of(name, json!({GPU: count, "cpu": "1m"}), true, 0);
    let pods = [gpu("one", 1), known("burstable"), gpu("four", 4), gpu("two", 2)];
    let chosen = |count: i64| run(&known("cluster-critical"), &pods, &[(GPU.to_owned(), count)].into());
    assert_eq!(chosen(2), Ok(vec![3]));
    assert_eq!(chosen(3), Ok(vec![2]));
    assert_eq!(chosen(5), Ok(vec![2, 0]));
    assert_eq!(chosen(8), Err([(GPU.to_owned(), 1)].into()));
}

#[test]
fn a_victim_that_is_not_needed_any_more_is_not_preempted() {
    // By distance `a` is chosen first; `b` and `c`, needed anyway, release all that it would.
    let pods = [pod("a", 60, 60, false, 0), pod("b", 100, 1, false, 0), pod("c", 1, 100, false, 0)];
    let mut chosen = run(&known("cluster-critical"), &pods, &missing(100, 100, 0)).unwrap();
    chosen.sort_unstable();
    assert_eq!(chosen, [1, 2]);
}

#[test]
fn distances() {
    let of = |missing: Amounts, name: &str| distance(&missing, &wants(&known(name)));
    assert_eq!(of(missing(0, 0, 0), "burstable"), 0.0);
    assert_eq!(of(missing(100, 100, 1), "best-effort"), 2.0);
    assert_eq!(of(missing(100, 100, 1), "burstable"), 0.0);
    assert_eq!(of(missing(50, 50, 0), "burstable"), 0.0);
    assert_eq!(of(missing(200, 0, 0), "burstable"), 0.25);
}

#[test]
fn missing_amounts_after_a_victim() {
    let of = |missing: Amounts, name: &str| subtract(&missing, &wants(&known(name)));
    assert_eq!(of(missing(0, 0, 0), "burstable"), missing(0, 0, 0));
    assert_eq!(of(missing(100, 100, 1), "best-effort"), missing(100, 100, 0));
    assert_eq!(of(missing(100, 100, 1), "burstable"), missing(0, 0, 0));
    assert_eq!(of(missing(50, 50, 0), "burstable"), missing(0, 0, 0));
    assert_eq!(of(missing(200, 200, 1), "burstable"), missing(100, 100, 0));
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let priority = prop::sample::select(vec![-5, 0, 7, CLUSTER - 1, CLUSTER, CLUSTER + 1000]);
    (0_i64..6, 0_i64..6, prop::bool::ANY, priority, 0_i64..3).prop_map(
        |(cpu, memory, limits, priority, gpus)| {
            let requests =
                json!({"cpu": format!("{}m", cpu * 10), "memory": format!("{}Mi", memory * 10), GPU: gpus});
            pod_of("p", requests, limits, priority)
        },
    )
}

fn suffice(pods: &[Pod], gone: impl IntoIterator<Item = usize>, missing: &Amounts) -> bool {
    gone.into_iter().fold(missing.clone(), |left, i| subtract(&left, &wants(&pods[i]))).is_empty()
}

/// Every subset.
fn sets(of: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..1_u32 << of.len()).map(|bits| {
        of.iter().enumerate().filter(|(place, _)| bits & (1 << place) != 0).map(|(_, index)| *index).collect()
    })
}

proptest! {
    /// No pod of the same or a higher priority is preempted, so never a critical pod for one that is no more
    /// critical; none is preempted without need; and none if even all preemptable pods together do not
    /// suffice.
    #[test]
    fn no_more_than_needed_and_only_if_it_helps(
        pods in prop::collection::vec(any_pod(), 0..9),
        preemptor in prop::sample::select(vec!["cluster-critical", "node-critical"]),
        (cpu, memory, count, gpus) in (0_i64..15, 0_i64..15, 0_i64..4, 0_i64..5),
    ) {
        let preemptor = known(preemptor);
        let mut missing = missing(cpu * 10, memory * 10, count);
        missing.extend((gpus > 0).then(|| (GPU.to_owned(), gpus)));
        let may: Vec<usize> = (0..pods.len()).filter(|i| preemptable(&preemptor, &pods[*i])).collect();
        match run(&preemptor, &pods, &missing) {
            Err(unable) => {
                prop_assert!(!unable.is_empty());
                prop_assert!(!suffice(&pods, may, &missing));
            }
            Ok(chosen) => {
                prop_assert!(suffice(&pods, chosen.iter().copied(), &missing));
                prop_assert!(chosen.iter().all(|i| pods[*i].priority < preemptor.priority));
                for spared in &chosen {
                    let others = chosen.iter().copied().filter(|i| i != spared);
                    prop_assert!(!suffice(&pods, others, &missing), "{} is not needed", pods[*spared].qos);
                }
            }
        }
    }

    /// Of one resource: as few Guaranteed pods as any set has; with those, as few Burstable ones; then as few
    /// others.
    #[test]
    fn the_smallest_set_of_a_single_resource(
        pods in prop::collection::vec(any_pod(), 0..9),
        resource in prop::sample::select(vec![CPU, MEMORY, PODS, GPU]),
        part in 1_i64..12,
    ) {
        let preemptor = known("node-critical");
        let unit = match resource { CPU => 10, MEMORY => 10 * MI, _ => 1 };
        let missing = Amounts::from([(resource.to_owned(), part * unit)]);
        let Ok(chosen) = run(&preemptor, &pods, &missing) else { return Ok(()) };
        let class = |qos: QosClass| -> Vec<usize> {
            (0..pods.len()).filter(|i| pods[*i].qos == qos && preemptable(&preemptor, &pods[*i])).collect()
        };
        let mut free = [class(QosClass::BestEffort), class(QosClass::Burstable)].concat();
        let mut fixed: Vec<usize> = Vec::new();
        for qos in [QosClass::Guaranteed, QosClass::Burstable, QosClass::BestEffort] {
            free.retain(|i| pods[*i].qos != qos);
            let own: Vec<usize> = chosen.iter().copied().filter(|i| pods[*i].qos == qos).collect();
            let all = class(qos);
            let enough = |set: &Vec<usize>| {
                suffice(&pods, set.iter().chain(&fixed).chain(&free).copied(), &missing)
            };
            let least = sets(&all).filter(enough).map(|set| set.len()).min();
            prop_assert_eq!(Some(own.len()), least, "{}", qos);
            fixed.extend(own);
        }
    }
}
