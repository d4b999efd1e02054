//! Compares our families with those recorded from a real kubelet: a family with a kubelet's name has the same
//! type and label keys, and every missing family is listed as missing on purpose.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::cadvisor::names::{LEFT_OUT, ONLY_WITH_BLOCK_IO};
use super::exposition::to_vec;
use super::{Cadvisor, Own, cadvisor, fixture, parsed, resource};
use nodewarden_testing::golden;

/// Name, then type and label keys.
type Recorded = BTreeMap<String, (String, Vec<String>)>;

fn recorded(endpoint: &str) -> Option<Recorded> {
    let all = golden::load("metric-families.json")?;
    let word = |v: &Value| v.as_str().expect("a string").to_owned();
    let families = all[endpoint].as_array().expect("a list of families");
    let family = |f: &Value| {
        let sets = f["label_sets"].as_array().expect("label sets").iter().map(word).collect();
        (word(&f["name"]), (word(&f["type"]), sets))
    };
    Some(families.iter().map(family).collect())
}

/// Compares `shown` with the recording; names in `extra` may be added, those in `left_out` may be missing.
fn compare(shown: &BTreeMap<String, parsed::Family>, recorded: &Recorded, extra: &[&str], left_out: &[&str]) {
    for (name, family) in shown {
        let Some((kind, sets)) = recorded.get(name) else {
            assert!(!golden::are_our_own() || extra.contains(&name.as_str()), "{name} is not a kubelet's");
            continue;
        };
        assert_eq!(&family.kind, kind, "type of {name}");
        for set in &family.label_sets {
            assert!(sets.contains(set), "label keys of {name}: {set}, not {sets:?}");
        }
    }
    for name in recorded.keys() {
        let out = left_out.contains(&name.as_str());
        assert_ne!(
            shown.contains_key(name),
            out,
            "{name} is neither shown nor left out with a reason, or both"
        );
    }
    for name in left_out.iter().filter(|_| golden::are_our_own()) {
        assert!(recorded.contains_key(*name), "{name} is left out but no kubelet has it");
    }
}

#[test]
fn cadvisor_families() {
    let Some(golden) = recorded("/metrics/cadvisor") else { return };
    let shown = parsed::families(&to_vec(|e| cadvisor::write(e, &fixture::snapshot(3))));
    assert_eq!(shown.len(), Cadvisor::ALL.len(), "the fixture shows every family");
    let extra: Vec<_> = ONLY_WITH_BLOCK_IO.iter().map(|f| f.desc().name).collect();
    let left_out: Vec<_> = LEFT_OUT.iter().map(|(name, _)| *name).collect();
    compare(&shown, &golden, &extra, &left_out);
}

#[test]
fn resource_families() {
    let Some(golden) = recorded("/metrics/resource") else { return };
    let shown = parsed::families(&to_vec(|e| resource::write(e, &fixture::snapshot(3))));
    compare(&shown, &golden, &[], &[]);
}

/// Families missing from the recording because what they count did not happen on that node: no container
/// start failed, there were no device plugins and no probes, no image was collected and no pod evicted.
const NOT_COUNTED_THERE: [Own; 9] = [
    Own::StartedContainersErrors,
    Own::DevicePluginRegistrations,
    Own::DevicePluginAllocation,
    Own::ProbeTotal,
    Own::ProbeDuration,
    Own::ImagesCollected,
    Own::Evictions,
    Own::EvictionStatsAge,
    Own::Preemptions,
];

/// The families that both a kubelet and this agent show have the same type and label keys.
#[test]
fn kubelet_families() {
    let Some(recorded) = recorded("/metrics (kubelet's own, the families that concern this agent)") else {
        return;
    };
    let shown =
        Own::ALL.iter().filter(|family| !NOT_COUNTED_THERE.contains(family)).map(|family| family.desc());
    let kubelets = |name: &str| name.starts_with("kubelet_") || name.starts_with("prober_");
    for desc in shown.filter(|desc| kubelets(desc.name)) {
        let Some((kind, sets)) = recorded.get(desc.name) else {
            assert!(!golden::are_our_own(), "{} is not a kubelet's", desc.name);
            continue;
        };
        assert_eq!(kind, desc.kind.name(), "type of {}", desc.name);
        assert!(sets.contains(&desc.labels.join(",")), "label keys of {}: {sets:?}", desc.name);
    }
}

/// Keys of ours that are missing from the recording, because that node had no swap limit at these levels.
const ONLY_WITH_A_SWAP_LIMIT: [&str; 2] =
    [".node.systemContainers.swap.swapAvailableBytes: number", ".pods.swap.swapAvailableBytes: number"];

/// Keys that the recorded pods do not have: they have no `emptyDir`.
const ONLY_WITH_A_VOLUME: &str = ".pods.volume.";

/// The key paths of our `/stats/summary` are the kubelet's.
#[test]
fn summary_keys() {
    let Some(recorded) = golden::load("stats-summary-sample.json") else { return };
    let recorded = keys(&recorded);
    let snapshot = fixture::snapshot(2);
    let mut later = snapshot.clone();
    let groups = later.groups.iter_mut().map(|g| &mut g.usage);
    for usage in groups.chain([&mut later.machine.usage]) {
        usage.time = usage.time.map(|t| t + Duration::from_secs(5));
    }
    let before = super::summary::Readings::of(&snapshot);
    let summary = super::summary::summary(&later, &before, &fixture::summary_sources());
    let ours = keys(&serde_json::to_value(summary).expect("JSON"));
    let is_known =
        |k: &&String| ONLY_WITH_A_SWAP_LIMIT.contains(&k.as_str()) || k.starts_with(ONLY_WITH_A_VOLUME);
    let unknown: Vec<_> = ours.difference(&recorded).filter(|k| !is_known(k)).collect();
    assert!(!golden::are_our_own() || unknown.is_empty(), "{unknown:?}");
    let missing: Vec<_> = recorded.difference(&ours).collect();
    assert!(missing.is_empty(), "not shown: {missing:?}");
}

/// Paths of keys with their JSON type, through lists.
fn keys(value: &Value) -> BTreeSet<String> {
    fn walk(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    walk(value, &format!("{path}.{key}"), found);
                }
            }
            Value::Array(list) => list.iter().for_each(|v| walk(v, path, found)),
            Value::Number(_) => drop(found.insert(format!("{path}: number"))),
            Value::String(_) => drop(found.insert(format!("{path}: string"))),
            Value::Bool(_) | Value::Null => drop(found.insert(format!("{path}: {value}"))),
        }
    }
    let mut found = BTreeSet::new();
    walk(value, "", &mut found);
    found
}
