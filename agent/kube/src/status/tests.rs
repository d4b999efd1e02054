//! Sequences of statuses, patches and what an API server makes of them.

use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::core::v1;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::due::{Due, Sent, due};
use super::patch::patch;
use super::{Settings, StatusWriter};
use crate::known_pods::{KnownPod, KnownPods, status_digest};
use crate::objects::fixture::Script;
use crate::pod_object::{Memory, NodeFacts, shown};
use nodewarden_model::{
    ContainerState, PodPhase, PodReason, PodView, ResizeInProgress, ResizePending, StatusReason,
    WaitingReason, fixture,
};
use nodewarden_pods::status::PodStatusCache;

/// A stand-in for the API server's strategic merge of a status patch, for the directives that [`patch`]
/// makes.
fn merge(object: &mut Value, patch: &Value) {
    let fields = object.as_object_mut().unwrap();
    for (name, value) in patch.as_object().unwrap() {
        let key = match name.as_str() {
            "conditions" => "type",
            "podIPs" | "hostIPs" => "ip",
            name if name.starts_with('$') => continue,
            _ => "",
        };
        match (value, fields.get_mut(name)) {
            (Value::Null, _) => drop(fields.remove(name)),
            (Value::Array(elements), Some(Value::Array(list))) if !key.is_empty() => {
                for element in elements {
                    let place = list.iter().position(|own| own[key] == element[key]);
                    match (element["$patch"] == "delete", place) {
                        (true, Some(place)) => drop(list.remove(place)),
                        (true, None) => {}
                        (false, Some(place)) => merge(&mut list[place], element),
                        (false, None) => list.push(element.clone()),
                    }
                }
            }
            _ => drop(fields.insert(name.clone(), value.clone())),
        }
    }
}

struct Server {
    status: Value,
    patches: u32,
}

impl Server {
    fn known(&self) -> KnownPod {
        let pod = json!({"metadata": {"namespace": "shop", "name": "cart-5d9c", "uid": "8c5e"}, "status": self.status});
        KnownPod::of(&serde_json::from_value::<v1::Pod>(pod).unwrap())
    }

    fn status(&self) -> v1::PodStatus {
        serde_json::from_value(self.status.clone()).unwrap()
    }

    fn restarts(&self) -> i32 {
        self.status()
            .container_statuses
            .and_then(|all| all.iter().find(|own| own.name == "web").map(|own| own.restart_count))
            .unwrap_or(0)
    }
}

/// The writer's part for one pod without its queue; `known` is what the watch shows, which may be old.
#[derive(Default)]
struct Writer {
    memory: Option<Memory>,
    sent: Option<Sent>,
}

impl Writer {
    fn write(&mut self, view: &PodView, known: &KnownPod, server: &mut Server, now: Timestamp) {
        let node =
            NodeFacts { name: "node-1".into(), ips: vec!["192.0.2.1".parse().unwrap()], runtime: None };
        let new = shown(view, &node, known, self.memory.as_ref(), now);
        self.memory = Some(new.memory);
        let own = status_digest(&new.status);
        if due(own, known.digest, self.sent) == Due::Now {
            merge(&mut server.status, &patch(&new.status, known)["status"]);
            server.patches += 1;
            self.sent = Some(Sent { own, answered: status_digest(&server.status()) });
        }
    }
}

fn time(status: &v1::PodStatus, name: &str) -> Option<String> {
    let condition = status.conditions.as_ref()?.iter().find(|own| own.type_ == name)?;
    Some(condition.last_transition_time.as_ref()?.0.to_string())
}

fn view(phase: PodPhase, ready: bool, restarts: u32) -> PodView {
    let mut view = fixture::pod();
    view.origin = "api:shop/cart-5d9c".into();
    (view.phase, view.containers[1].ready, view.containers[1].restarts) = (phase, ready, restarts);
    view
}

#[test]
fn transition_times_change_with_the_condition_alone_also_over_a_restart() {
    let mut server = Server { status: json!({}), patches: 0 };
    let mut now: Timestamp = "2026-11-23T08:00:00.5Z".parse().unwrap();
    let mut writer = Writer::default();
    let step = |writer: &mut Writer, server: &mut Server, ready, now: Timestamp| {
        let known = server.known();
        writer.write(&view(PodPhase::Running, ready, 2), &known, server, now);
        time(&server.status(), "Ready").unwrap()
    };
    assert_eq!(step(&mut writer, &mut server, false, now), "2026-11-23T08:00:00Z");
    now += 10.seconds();
    assert_eq!(step(&mut writer, &mut server, true, now), "2026-11-23T08:00:10Z");
    now += 10.seconds();
    assert_eq!(step(&mut writer, &mut server, true, now), "2026-11-23T08:00:10Z");
    let patches = server.patches;
    assert_eq!(step(&mut Writer::default(), &mut server, true, now), "2026-11-23T08:00:10Z", "a new agent");
    assert_eq!(server.patches, patches, "which finds that all is there");
    assert_eq!(step(&mut Writer::default(), &mut server, false, now), "2026-11-23T08:00:20Z");
    assert_eq!(time(&server.status(), "PodScheduled").unwrap(), "2026-11-23T08:00:00Z");
    assert_eq!(server.status["hostIP"], "192.0.2.1");
}

#[test]
fn a_transition_during_an_outage_keeps_its_time() {
    let mut server = Server { status: json!({}), patches: 0 };
    let first: Timestamp = "2026-11-23T08:00:00Z".parse().unwrap();
    let mut writer = Writer::default();
    let known = server.known();
    writer.write(&view(PodPhase::Running, true, 0), &known, &mut server, first);
    let known = server.known();
    // What is computed now does not reach the server.
    let node = NodeFacts::default();
    let lost = shown(
        &view(PodPhase::Running, false, 0),
        &node,
        &known,
        writer.memory.as_ref(),
        first + 60.seconds(),
    );
    writer.memory = Some(lost.memory);
    writer.write(&view(PodPhase::Running, false, 0), &known, &mut server, first + 3600.seconds());
    assert_eq!(time(&server.status(), "Ready").unwrap(), "2026-11-23T08:01:00Z");
}

#[test]
fn conditions_of_others_stay_and_own_ones_go() {
    let gate = json!({"type": "example.com/gate", "status": "False", "message": "not yet"});
    let mut server = Server { status: json!({"conditions": [gate], "nominatedNodeName": "x"}), patches: 0 };
    let mut writer = Writer::default();
    let now = Timestamp::UNIX_EPOCH;
    let mut resized = view(PodPhase::Running, true, 0);
    resized.resize = Some(ResizePending::Deferred("no room".into()));
    resized.resizing = Some(ResizeInProgress::default());
    let known = server.known();
    writer.write(&resized, &known, &mut server, now);
    let types = |server: &Server| -> Vec<String> {
        server.status().conditions.unwrap().into_iter().map(|own| own.type_).collect()
    };
    assert!(types(&server).contains(&"PodResizePending".to_owned()));
    assert!(types(&server).contains(&"PodResizeInProgress".to_owned()));
    (resized.resize, resized.resizing) = (None, None);
    let known = server.known();
    writer.write(&resized, &known, &mut server, now);
    assert!(!types(&server).iter().any(|kind| kind.starts_with("PodResize")), "{:?}", types(&server));
    assert!(
        server.status["conditions"].as_array().unwrap().contains(&gate)
            && server.status["nominatedNodeName"] == "x"
    );
}

#[test]
fn a_pod_without_sandbox_keeps_its_addresses_and_a_new_one_replaces_them() {
    let mut server = Server { status: json!({}), patches: 0 };
    let mut writer = Writer::default();
    let mut own = view(PodPhase::Running, true, 0);
    for (ips, expected) in [
        (vec!["10.0.0.7"], json!([{"ip": "10.0.0.7"}])),
        (vec![], json!([{"ip": "10.0.0.7"}])),
        (vec!["10.0.0.8", "fd00::8"], json!([{"ip": "10.0.0.8"}, {"ip": "fd00::8"}])),
    ] {
        own.ips = ips.iter().map(|ip| ip.parse().unwrap()).collect();
        let known = server.known();
        writer.write(&own, &known, &mut server, Timestamp::UNIX_EPOCH);
        assert_eq!((&server.status["podIPs"], &server.status["podIP"]), (&expected, &expected[0]["ip"]));
    }
}

#[test]
fn a_reason_is_shown_of_a_pod_that_failed() {
    let node = NodeFacts::default();
    let known = Server { status: json!({}), patches: 0 }.known();
    let ended = |reason: &str| StatusReason::Ended(reason.into());
    for (origin, phase, reason, expected) in [
        ("api:shop/cart-5d9c", PodPhase::Failed, ended("Evicted"), Some("Evicted")),
        ("api:shop/cart-5d9c", PodPhase::Running, StatusReason::Terminating, None),
        ("api:shop/cart-5d9c", PodPhase::Pending, StatusReason::Trouble(PodReason::FailedMount), None),
        (
            "/m/cart.yaml",
            PodPhase::Pending,
            StatusReason::Trouble(PodReason::OutOf("cpu".into())),
            Some("OutOfcpu"),
        ),
        ("/m/cart.yaml", PodPhase::Pending, StatusReason::Trouble(PodReason::RuntimeNotReady), None),
    ] {
        let own = PodView { origin: origin.into(), reason, ..view(phase, false, 0) };
        let status = shown(&own, &node, &known, None, Timestamp::UNIX_EPOCH).status;
        assert_eq!(status.reason.as_deref(), expected, "{own:?}");
    }
}

proptest! {
    /// Whatever the pod does, however old what the watch shows is, and whenever the agent starts again: the
    /// API server's phase does not leave a terminal one, no restarts are lost, and in the end it has the
    /// newest status.
    #[test]
    fn what_the_api_shows_never_goes_backwards(
        steps in proptest::collection::vec((0u8..4, any::<bool>(), 0u32..3, 0u8..8, 0usize..3), 1..40)
    ) {
        let mut server = Server { status: json!({}), patches: 0 };
        let mut writer = Writer::default();
        let mut now: Timestamp = "2026-11-23T08:00:00Z".parse().unwrap();
        let mut shown_before = vec![server.known()];
        let (mut restarts, mut ended) = (0, None::<Value>);
        let phases = [PodPhase::Pending, PodPhase::Running, PodPhase::Succeeded, PodPhase::Failed];
        let mut last = view(PodPhase::Pending, false, 0);
        for (phase, ready, more, event, behind) in steps {
            now += 1.second();
            restarts += more;
            last = view(phases[usize::from(phase)], ready, restarts);
            if event == 0 {
                // A new agent reads a list, which is never behind, and may have lost its records.
                (writer, shown_before) = (Writer::default(), vec![server.known()]);
                last.containers[1].restarts = 0;
            }
            if event == 1 {
                last.containers[1].state = ContainerState::Waiting { reason: WaitingReason::CrashLoopBackOff, message: String::new() };
            }
            let seen = shown_before[shown_before.len().saturating_sub(1 + behind)].clone();
            let before = server.restarts();
            writer.write(&last, &seen, &mut server, now);
            if event != 0 && behind == 0 {
                prop_assert!(server.restarts() >= before, "restarts {} after {before}", server.restarts());
            }
            if let Some(ended) = &ended {
                prop_assert_eq!(&server.status["phase"], ended);
            }
            let phase = &server.status["phase"];
            if phase == "Failed" || phase == "Succeeded" {
                ended = Some(phase.clone());
            }
            shown_before.push(server.known());
        }
        // Twice, as after the second look: the watch has come to its end.
        let known = server.known();
        writer.write(&last, &known, &mut server, now);
        let known = server.known();
        let expected = shown(&last, &NodeFacts { name: "node-1".into(), ips: vec!["192.0.2.1".parse().unwrap()], runtime: None },
            &known, writer.memory.as_ref(), now);
        prop_assert_eq!(known.digest, status_digest(&expected.status));
        let patches = server.patches;
        writer.write(&last, &known, &mut server, now);
        prop_assert_eq!(server.patches, patches, "nothing is written twice");
    }
}

#[test]
fn what_is_written_is_read_back_as_the_same() {
    let mut server = Server { status: Value::Object(Map::new()), patches: 0 };
    let known = server.known();
    Writer::default().write(&view(PodPhase::Running, true, 2), &known, &mut server, Timestamp::now());
    let known = server.known();
    Writer::default().write(&view(PodPhase::Running, true, 2), &known, &mut server, Timestamp::now());
    assert_eq!(server.patches, 1);
}

/// Whether the wait for all statuses ended well, before a pod has a status and after, with this answer to its
/// request.
async fn waits(answer: Option<&str>) -> ([bool; 2], Vec<String>) {
    let mut script = Script::default();
    if let Some(text) = answer {
        script = script.then(200, text);
    }
    let (cache, known) = (PodStatusCache::default(), KnownPods::default());
    known.replace([Server { status: json!({}), patches: 0 }.known()]);
    let facts = Box::new(NodeFacts::default);
    let writer = StatusWriter::new(script.connection(), cache.clone(), known, facts, Settings::default());
    let written = writer.written();
    let task = tokio::spawn(writer.run());
    let before = written.wait(Duration::from_secs(10)).await;
    cache.set(view(PodPhase::Failed, false, 0));
    let after = written.wait(Duration::from_millis(if answer.is_some() { 10_000 } else { 300 })).await;
    task.abort();
    ([before, after], script.requests())
}

#[tokio::test]
async fn the_wait_for_statuses_ends_when_the_api_server_has_them() {
    let pod = r#"{"metadata": {"namespace": "shop", "name": "cart-5d9c", "uid": "8c5e"}, "status": {"phase": "Failed"}}"#;
    let patch = "PATCH /api/v1/namespaces/shop/pods/cart-5d9c/status?";
    for (answer, expected) in [(Some(pod), [true, true]), (None, [true, false])] {
        let (ended_well, requests) = waits(answer).await;
        assert_eq!(ended_well, expected, "{answer:?}");
        assert!(requests.len() == 1 && requests[0].starts_with(patch), "{requests:?}");
    }
}
