use serde_json::json;

use super::*;
use nodewarden_manifest::{ContainerKind, Quantity, Resources};
use nodewarden_model::{
    ApiState, ContainerState, EvictionCause, PodPhase, ReadinessGate, ResizeInProgress, ResizePending,
    StatusReason, WaitingReason, fixture,
};

/// How messages of evictions begin (`nodewarden_eviction::NODE_LOW`, which is built on this crate).
const NODE_LOW: &str = "The node was low on resource: ";

fn node(runtime: Option<&str>) -> NodeFacts {
    NodeFacts { name: "node-1".into(), ips: Vec::new(), runtime: runtime.map(str::to_owned) }
}

#[test]
fn a_running_pod() {
    let view = fixture::pod();
    let list = serde_json::to_value(list(&[Arc::new(view.clone())], &node(Some("containerd")))).unwrap();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PodList"), &json!("v1")));
    let pod = &list["items"][0];
    assert_eq!(
        pod["metadata"],
        json!({
            "name": "cart-5d9c", "namespace": "shop", "uid": "8c5e",
            "creationTimestamp": "2023-11-14T22:13:20Z",
            "labels": {"app": "cart"},
            "annotations": {
                "kubernetes.io/config.hash": "8c5e",
                "kubernetes.io/config.seen": "2023-11-14T22:13:20Z",
                "kubernetes.io/config.source": "file",
            },
        })
    );
    let spec = &pod["spec"];
    assert_eq!((&spec["nodeName"], &spec["restartPolicy"]), (&json!("node-1"), &json!("Always")));
    assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "100m", "memory": "64Mi"}));
    let status = &pod["status"];
    assert_eq!(
        (&status["phase"], &status["qosClass"], &status["podIP"], &status["podIPs"]),
        (&json!("Running"), &json!("Burstable"), &json!("10.0.0.7"), &json!([{"ip": "10.0.0.7"}]))
    );
    let web = &status["containerStatuses"][0];
    assert_eq!(web["containerID"], "containerd://c0ffee");
    assert_eq!(web["state"], json!({"running": {"startedAt": "2023-11-14T22:14:20Z"}}));
    assert_eq!(web["lastState"]["terminated"]["reason"], "OOMKilled");
    assert_eq!((&web["restartCount"], &web["ready"]), (&json!(2), &json!(true)));
    assert_eq!(web["allocatedResources"], json!({"cpu": "100m", "memory": "64Mi"}));
    assert_eq!(web["resources"]["limits"], json!({"memory": "128Mi"}));
    assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
    let conditions = conditions_of(status);
    let names = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
    assert_eq!(conditions, names.map(|name| format!("{name}=True")).join(" "));

    // Any other runtime is called by its name, and none is made up.
    let named = |runtime| {
        let pod = super::pod(&view, &node(runtime));
        pod.status.unwrap().container_statuses.unwrap()[0].container_id.clone()
    };
    assert_eq!(named(Some("cri-o")).as_deref(), Some("cri-o://c0ffee"));
    assert_eq!(named(None), None);
}

fn conditions_of(status: &serde_json::Value) -> String {
    let text_of = |c: &serde_json::Value| {
        let text = |key: &str| c[key].as_str().unwrap_or_default().to_owned();
        let why = [text("reason"), text("message")].join(" ").trim().to_owned();
        let why = if why.is_empty() { why } else { format!("({why})") };
        format!("{}={}{why}", text("type"), text("status"))
    };
    let all: Vec<_> = status["conditions"].as_array().unwrap().iter().map(text_of).collect();
    all.join(" ")
}

#[test]
fn what_probes_hold_back() {
    let mut view = fixture::pod();
    view.containers[0].kind = ContainerKind::Sidecar;
    view.containers[0].state = view.containers[1].state.clone();
    // Started and ready of the sidecar and of the container, and whether the latter was created.
    let mut conditions = |sidecar: (bool, bool), web: (bool, bool), made: bool| {
        for (own, (started, ready)) in view.containers.iter_mut().zip([sidecar, web]) {
            (own.started, own.ready) = (started, ready);
        }
        view.containers[1].id = if made { "c0ffee".into() } else { String::new() };
        let status = serde_json::to_value(status(&view, &node(None))).unwrap();
        let flags = [&status["initContainerStatuses"][0], &status["containerStatuses"][0]]
            .map(|own| (own["started"].as_bool(), own["ready"].as_bool()));
        assert_eq!(flags, [sidecar, web].map(|(started, ready)| (Some(started), Some(ready))));
        let all = conditions_of(&status);
        let shown = ["PodReadyToStartContainers=True ", " PodScheduled=True"];
        all.strip_prefix(shown[0]).and_then(|all| all.strip_suffix(shown[1])).unwrap().to_owned()
    };
    let unready = |names: &str| {
        let why = format!("False(ContainersNotReady containers with unready status: [{names}])");
        format!("Ready={why} ContainersReady={why}")
    };
    let (new, started, ready) = ((false, false), (true, false), (true, true));
    assert_eq!(
        conditions(new, new, false),
        "Initialized=False(ContainersNotInitialized containers with incomplete status: [prepare]) "
            .to_owned()
            + &unready("prepare web")
    );
    assert_eq!(conditions(started, new, false), format!("Initialized=True {}", unready("prepare web")));
    assert_eq!(conditions(started, started, true), format!("Initialized=True {}", unready("prepare web")));
    assert_eq!(conditions(started, ready, true), format!("Initialized=True {}", unready("prepare")));
    assert_eq!(conditions(ready, new, true), format!("Initialized=True {}", unready("web")));
    // A restart of a sidecar because of a probe does not revert the initialisation.
    assert_eq!(conditions(new, ready, true), format!("Initialized=True {}", unready("prepare")));
    assert_eq!(conditions(ready, ready, true), "Initialized=True Ready=True ContainersReady=True");
}

#[test]
fn a_pod_that_begins_and_one_that_is_done() {
    let mut view = fixture::pod();
    view.ips.clear();
    (view.phase, view.sandbox_id) = (PodPhase::Pending, String::new());
    for container in &mut view.containers {
        (container.id, container.ready, container.started) = (String::new(), false, false);
        container.state =
            ContainerState::Waiting { reason: WaitingReason::PodInitializing, message: String::new() };
    }
    let conditions =
        |view: &PodView| conditions_of(&serde_json::to_value(status(view, &node(None))).unwrap());
    assert_eq!(
        conditions(&view),
        "PodReadyToStartContainers=False \
         Initialized=False(ContainersNotInitialized containers with incomplete status: [prepare]) \
         Ready=False(ContainersNotReady containers with unready status: [web]) \
         ContainersReady=False(ContainersNotReady containers with unready status: [web]) PodScheduled=True"
    );
    (view.phase, view.reason, view.message) =
        (PodPhase::Failed, StatusReason::Ended("Evicted".into()), format!("{NODE_LOW}memory"));
    view.evicted = Some(EvictionCause::NodePressure);
    let shown = serde_json::to_value(pod(&view, &node(None))).unwrap();
    let status = &shown["status"];
    assert_eq!(
        (&status["phase"], &status["reason"], &status["message"]),
        (&json!("Failed"), &json!("Evicted"), &json!(format!("{NODE_LOW}memory")))
    );
    assert!(conditions_of(status).ends_with(
        "Ready=False(PodFailed) ContainersReady=False(PodFailed) PodScheduled=True \
         DisruptionTarget=True(TerminationByKubelet The node was low on resource: memory)"
    ));
    view.message = "Usage of EmptyDir volume".into();
    view.evicted = Some(EvictionCause::OwnLimit);
    assert!(conditions(&view).ends_with(" PodScheduled=True"), "its own limit");
    view.reason = StatusReason::None;
    view.evicted = None;
    view.resize = Some(ResizePending::Deferred("no room: none".into()));
    assert!(conditions(&view).ends_with(" PodScheduled=True PodResizePending=True(Deferred no room: none)"));
    // Other resources are asked for while the former ones are given to the containers.
    view.resizing = Some(ResizeInProgress::default());
    assert!(conditions(&view).ends_with("(Deferred no room: none) PodResizeInProgress=True"));
    view.resize = None;
    view.resizing = Some(ResizeInProgress { error: Some("refused by the runtime".into()) });
    assert!(conditions(&view).ends_with(" PodResizeInProgress=True(Error refused by the runtime)"));
    view.resizing = None;
    view.phase = PodPhase::Succeeded;
    assert_eq!(
        conditions(&view),
        "PodReadyToStartContainers=False Initialized=True(PodCompleted) Ready=False(PodCompleted) \
         ContainersReady=False(PodCompleted) PodScheduled=True"
    );
}

#[test]
fn readiness_gates_hold_back_ready_alone() {
    let mut view = fixture::pod();
    let gate = |status: Option<&str>| ReadinessGate {
        condition: "example.com/lb".into(),
        status: status.map(str::to_owned),
    };
    let mut conditions = |gates: Vec<ReadinessGate>| {
        view.api = Some(Arc::new(ApiState { generation: Some(3), gates }));
        let status = serde_json::to_value(status(&view, &node(None))).unwrap();
        assert_eq!(status["observedGeneration"], 3);
        assert_eq!(status["conditions"][0]["observedGeneration"], 3);
        let all = conditions_of(&status);
        all.split_once("Initialized=True ").unwrap().1.to_owned()
    };
    let rest = " ContainersReady=True PodScheduled=True";
    assert_eq!(conditions(vec![gate(Some("True"))]), format!("Ready=True{rest}"));
    assert_eq!(
        conditions(vec![gate(Some("False")), gate(None)]),
        "Ready=False(ReadinessGatesNotReady the status of pod readiness gate \"example.com/lb\" is not \"True\", but False, \
         corresponding condition of pod readiness gate \"example.com/lb\" does not exist.)"
            .to_owned()
            + rest
    );
}

#[test]
fn only_disruptions_are_disruptions() {
    let mut view = fixture::pod();
    view.phase = PodPhase::Failed;
    for (cause, expected) in [
        (EvictionCause::NodePressure, true),
        (EvictionCause::Preemption, true),
        (EvictionCause::Shutdown, true),
        (EvictionCause::OwnLimit, false),
        (EvictionCause::Other, false),
    ] {
        view.evicted = Some(cause);
        let status = serde_json::to_value(status(&view, &node(None))).unwrap();
        assert_eq!(conditions_of(&status).contains("DisruptionTarget"), expected, "{cause:?}");
    }
}

#[test]
fn a_container_has_what_it_was_given_until_a_resize_is_done() {
    let mut view = fixture::pod();
    let given = json!({"limits": {"memory": "256Mi"}, "requests": {"cpu": "50m", "memory": "64Mi"}});
    let list = |name: &str| {
        let of = given[name].as_object().unwrap().iter();
        of.map(|(name, text)| (name.clone(), Quantity::parse(text.as_str().unwrap()).unwrap())).collect()
    };
    let own = Resources { requests: list("requests"), limits: list("limits") };
    view.containers[1].resources = Some(own.into());
    let status = serde_json::to_value(status(&view, &node(None))).unwrap();
    let web = &status["containerStatuses"][0];
    assert_eq!(web["resources"], given);
    assert_eq!(web["allocatedResources"], json!({"cpu": "100m", "memory": "64Mi"}));
}
