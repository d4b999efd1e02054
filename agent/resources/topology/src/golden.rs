//! Compares merging and admission with what a kubelet 1.36 answered
//! (`resource_managers/topology_merge.json`).

use std::collections::{BTreeMap, BTreeSet};

use nodewarden_manifest::{Container, Pod};
use nodewarden_testing::golden::are_our_own;
use serde_json::{Value, json};

use crate::fixture::{distances, hint, hints, list, load, number, text, texts};
use crate::{AllocateError, Allocated, Hint, Hints, Merger, NodeSet, Provider, Settings, admit};

const FILE: &str = "topology_merge.json";

fn settings(case: &Value, scope: &str) -> Settings {
    let nodes = list(&case["numa_nodes"]).len();
    Settings::new(text(&case["policy"]), scope, &texts(&case["options"]), nodes, true)
        .expect("valid settings")
}

/// Every merge gives the kubelet's hint and verdict. Where the kubelet panics (fault 19: it takes the
/// distance's column by the node's number) the hint is the closest of the narrowest.
#[test]
fn merges_are_the_kubelets() {
    let Some(recorded) = load(FILE) else { return };
    let (mut equal, mut excepted) = (0, 0);
    for case in list(&recorded["merge_cases"]) {
        let merger = Merger::new(settings(case, "container"), distances(&case["numa_nodes"]));
        let providers: Vec<Hints> = list(&case["providers"]).iter().map(hints).collect();
        let merged = merger.merge(&providers);
        if case["panic"].is_string() {
            assert!(merged.admit && merged.hint.affinity.is_some_and(|nodes| !nodes.is_empty()), "{case}");
            excepted += 1;
            continue;
        }
        // Fault 19 again: with gaps in the numbers the kubelet reads a wrong column, or the row's end.
        assert_eq!(merged.hint.to_string(), text(&case["best_hint"]), "{case}");
        assert_eq!(json!(merged.admit), case["admit"], "{case}");
        if !merged.admit {
            let named: BTreeSet<&String> = providers.iter().flat_map(BTreeMap::keys).collect();
            assert!(!merged.unaligned.is_empty(), "{case}");
            assert!(merged.unaligned.iter().all(|name| named.contains(name)), "{case}");
        }
        equal += 1;
    }
    println!("merges: {equal} equal, {excepted} excepted");
    assert!(!are_our_own() || (equal, excepted) == (159, 1), "{equal} equal, {excepted} excepted");
}

/// A provider that answers as recorded, and notes the calls.
struct Recorded<'a> {
    case: &'a Value,
    calls: &'a std::cell::RefCell<Vec<Value>>,
    released: Vec<String>,
}

impl Recorded<'_> {
    fn note(&self, mut call: Value) {
        call["provider"] = self.case["name"].clone();
        self.calls.borrow_mut().push(call);
    }
}

impl Provider for Recorded<'_> {
    fn container_hints(&mut self, _: &Pod, container: &Container) -> Hints {
        self.note(json!({"call": "container_hints", "container": container.name}));
        hints(&self.case["container_hints"][&container.name])
    }

    fn pod_hints(&mut self, _: &Pod) -> Hints {
        self.note(json!({"call": "pod_hints"}));
        hints(&self.case["pod_hints"])
    }

    fn allocate(
        &mut self,
        _: &Pod,
        container: &Container,
        affinity: Hint,
    ) -> Result<Allocated, AllocateError> {
        let fails = list(&self.case["allocate_fails_for"]).iter().any(|name| *name == *container.name);
        let mut call =
            json!({"call": "allocate", "container": container.name, "affinity": affinity.to_string()});
        if fails {
            call["error"] = json!("no room");
        }
        self.note(call);
        let error = AllocateError { reason: None, message: "no room".to_owned() };
        if fails { Err(error) } else { Ok(Allocated::Given) }
    }

    fn allocate_pod(&mut self, _: &Pod, _: Hint) -> Result<Allocated, AllocateError> {
        unreachable!("no recorded pod has resources of its own")
    }

    fn release(&mut self, _: &str, container: &str) {
        self.released.push(container.to_owned());
    }
}

/// Every admission makes the kubelet's calls in its order, with its verdict. Unlike there (fault 9), what was
/// given is released when the pod is rejected, and the message goes on to name the resources.
#[test]
fn admissions_are_the_kubelets() {
    let Some(recorded) = load(FILE) else { return };
    let mut equal = 0;
    for case in list(&recorded["admission_cases"]) {
        let calls = std::cell::RefCell::default();
        let provider = |case| Recorded { case, calls: &calls, released: Vec::new() };
        let mut providers: Vec<Recorded<'_>> = list(&case["providers"]).iter().map(provider).collect();
        let merger = Merger::new(settings(case, text(&case["scope"])), distances(&case["numa_nodes"]));
        let named = |key: &str| list(&case[key]).iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
        let pod = crate::fixture::pod(
            &json!({"uid": "u", "init_containers": named("init_containers"), "containers": named("containers")}),
        );
        let mut all: Vec<&mut dyn Provider> =
            providers.iter_mut().map(|one| one as &mut dyn Provider).collect();
        let result = admit(&merger, &mut all, &pod, false);
        assert_eq!(json!(*calls.borrow()), case["calls"], "{case}");
        assert_eq!(json!(result.is_ok()), case["admit"], "{case}");
        let given = calls
            .borrow()
            .iter()
            .filter(|call| call["call"] == "allocate" && call["error"].is_null())
            .count();
        let released: usize = providers.iter().map(|one| one.released.len()).sum();
        assert_eq!(released, if result.is_ok() { 0 } else { given }, "{case}");
        if let Err(rejection) = result {
            assert_eq!(rejection.reason.to_string(), text(&case["reason"]), "{case}");
            assert!(rejection.message.starts_with(text(&case["message"])), "{rejection} {case}");
        }
        equal += 1;
    }
    println!("admissions: {equal} equal");
    assert!(!are_our_own() || equal == 40, "{equal}");
}

/// Settings are accepted and refused as by the kubelet, with its texts.
#[test]
fn settings_are_checked_as_by_the_kubelet() {
    let Some(recorded) = load(FILE) else { return };
    let mut equal = 0;
    for case in list(&recorded["manager_cases"]) {
        let made = Settings::new(
            text(&case["policy"]),
            text(&case["scope"]),
            &texts(&case["options"]),
            number(&case["numa_nodes"]) as usize,
            case["distances_known"] == true,
        );
        let error = made.err().map_or(Value::Null, |error| json!(error.to_string()));
        assert_eq!(error, case["error"], "{case}");
        equal += 1;
    }
    println!("settings: {equal} equal");
    assert!(!are_our_own() || equal == 16, "{equal}");
}

#[test]
fn recorded_hints_are_read() {
    assert_eq!(hint("0-1*"), Hint::of(NodeSet::parse("0-1").unwrap(), true));
    assert_eq!(
        (hint("any"), hint("empty*").affinity),
        (Hint { affinity: None, preferred: false }, Some(NodeSet::EMPTY))
    );
}
