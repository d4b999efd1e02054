//! Managed pods as a Kubernetes `v1` PodList with status, as in a kubelet's response to `/pods`. Pure.
//!
//! As there, a static pod has the annotations `kubernetes.io/config.hash`, `.seen` and `.source`, but not `.mirror`,
//! which only mirror pods of an API server have.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::List;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use nodewarden_manifest::{Container, ContainerKind, Pod};
use nodewarden_model::Health;
use nodewarden_model::{ContainerState, ContainerView, Ended, EvictionCause, PodPhase, PodView};

const TRUE: &str = "True";
const FALSE: &str = "False";

/// The list, in the order of the views. `runtime` is the name that the container runtime gives itself, if it is known.
pub fn list(views: &[Arc<PodView>], node: &str, runtime: Option<&str>) -> List<v1::Pod> {
    List { items: views.iter().map(|view| pod(view, node, runtime)).collect(), ..List::default() }
}

/// One pod on the node of this name, with its containers in the runtime of this name.
pub fn pod(view: &PodView, node: &str, runtime: Option<&str>) -> v1::Pod {
    let mut pod = view.pod.to_kubernetes();
    let seen = Time(view.started);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert("kubernetes.io/config.hash".into(), view.pod.uid.clone());
    annotations.insert("kubernetes.io/config.seen".into(), view.started.to_string());
    annotations.insert("kubernetes.io/config.source".into(), "file".into());
    pod.metadata.creation_timestamp = Some(seen);
    // A pod that is evicted or preempted is not deleted.
    pod.metadata.deletion_timestamp = view.terminating.filter(|_| !view.is_evicted_or_preempted()).map(Time);
    if let Some(spec) = &mut pod.spec {
        default_spec(spec, &view.pod, node);
    }
    pod.status = Some(status(view, runtime));
    pod
}

/// Fills in fields as the API server does, because clients expect them.
fn default_spec(spec: &mut v1::PodSpec, pod: &Pod, node: &str) {
    spec.node_name.get_or_insert_with(|| node.to_owned());
    spec.priority.get_or_insert(pod.priority);
    spec.restart_policy.get_or_insert_with(|| "Always".into());
    spec.dns_policy.get_or_insert_with(|| "ClusterFirst".into());
    spec.termination_grace_period_seconds.get_or_insert(30);
    let declared: BTreeMap<&str, &Container> =
        pod.init_containers.iter().chain(&pod.containers).map(|c| (c.name.as_str(), c)).collect();
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        if let Some(declared) = declared.get(container.name.as_str()) {
            let own = container.resources.get_or_insert_default();
            let defaulted = declared.resources.to_kubernetes();
            (own.requests, own.limits) = (defaulted.requests, defaulted.limits);
        }
    }
}

fn status(view: &PodView, runtime: Option<&str>) -> v1::PodStatus {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let declared = view.pod.init_containers.iter().chain(&view.pod.containers);
    let all: Vec<(ContainerKind, v1::ContainerStatus)> = view
        .containers
        .iter()
        .zip(declared)
        .map(|(shown, declared)| (shown.kind, container_status(shown, declared, runtime)))
        .collect();
    let of = |regular: bool| {
        let chosen = all.iter().filter(|(kind, _)| (*kind == ContainerKind::Regular) == regular);
        let chosen: Vec<_> = chosen.map(|(_, status)| status.clone()).collect();
        (!chosen.is_empty()).then_some(chosen)
    };
    let ips: Vec<String> = view.ips.iter().map(ToString::to_string).collect();
    // The node's addresses are known only from pods on the host network.
    let host_ip = ips.first().filter(|_| view.pod.spec.host_network == Some(true)).cloned();
    v1::PodStatus {
        conditions: Some(conditions(view)),
        container_statuses: of(true),
        init_container_statuses: of(false),
        host_ips: host_ip.clone().map(|ip| vec![v1::HostIP { ip }]),
        host_ip,
        pod_ip: ips.first().cloned(),
        pod_ips: (!ips.is_empty()).then(|| ips.into_iter().map(|ip| v1::PodIP { ip }).collect()),
        phase: Some(view.phase.name().to_owned()),
        qos_class: Some(view.pod.qos.to_string()),
        reason: text(&view.reason),
        message: text(&view.message),
        start_time: Some(Time(view.started)),
        ..v1::PodStatus::default()
    }
}

/// The conditions as in `pkg/kubelet/status/generate.go`.
fn conditions(view: &PodView) -> Vec<v1::PodCondition> {
    let names = |unfit: fn(&ContainerView) -> bool, kinds: &[ContainerKind]| {
        let unfit = view.containers.iter().filter(|c| kinds.contains(&c.kind) && unfit(c));
        unfit.map(|c| c.name.as_str()).collect::<Vec<_>>()
    };
    // The next container waits until a sidecar has started, not until it is ready.
    let uninitialised = names(
        |c| if c.kind == ContainerKind::Sidecar { !c.started } else { !c.ready },
        &[ContainerKind::Init, ContainerKind::Sidecar],
    );
    let unready = names(|c| !c.ready, &[ContainerKind::Sidecar, ContainerKind::Regular]);
    let begun = view.containers.iter().any(|c| c.kind == ContainerKind::Regular && !c.id.is_empty());
    let running = view.containers.iter().any(|c| matches!(c.state, ContainerState::Running { .. }));
    let condition = |type_: &str, status: bool, reason: &str, message: String| v1::PodCondition {
        type_: type_.to_owned(),
        status: if status { TRUE } else { FALSE }.to_owned(),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
        message: (!message.is_empty()).then_some(message),
        last_transition_time: (type_ == "PodScheduled").then_some(Time(view.started)),
        ..v1::PodCondition::default()
    };
    let plain = |type_, status| condition(type_, status, "", String::new());
    let initialised = match view.phase {
        PodPhase::Succeeded => condition("Initialized", true, "PodCompleted", String::new()),
        // Once true, the condition stays true even if init containers or sidecars end later.
        _ if begun || uninitialised.is_empty() => plain("Initialized", true),
        _ => {
            let message = format!("containers with incomplete status: [{}]", uninitialised.join(" "));
            condition("Initialized", false, "ContainersNotInitialized", message)
        }
    };
    let ready = |type_| match view.phase {
        PodPhase::Succeeded => condition(type_, false, "PodCompleted", String::new()),
        PodPhase::Failed => condition(type_, false, "PodFailed", String::new()),
        _ if unready.is_empty() => plain(type_, true),
        _ => {
            let message = format!("containers with unready status: [{}]", unready.join(" "));
            condition(type_, false, "ContainersNotReady", message)
        }
    };
    let mut conditions = vec![
        plain("PodReadyToStartContainers", !view.ips.is_empty() || running),
        initialised,
        ready("Ready"),
        ready("ContainersReady"),
        plain("PodScheduled", true),
    ];
    // KEP-3329; not for evictions because of the pod's own disk limits (kubelet `localStorageEviction`).
    if view.is_evicted_or_preempted() && view.evicted != Some(EvictionCause::OwnLimit) {
        conditions.push(condition("DisruptionTarget", true, "TerminationByKubelet", view.message.clone()));
    }
    if let Some(pending) = &view.resize {
        // KEP-1287.
        conditions.push(condition("PodResizePending", true, pending.reason(), pending.message().to_owned()));
    }
    conditions
}

fn container_status(
    view: &ContainerView,
    declared: &Container,
    runtime: Option<&str>,
) -> v1::ContainerStatus {
    let resources = declared.resources.to_kubernetes();
    v1::ContainerStatus {
        name: view.name.clone(),
        image: view.image.clone(),
        image_id: view.image_id.clone(),
        container_id: id(&view.id, runtime),
        ready: view.ready,
        started: Some(view.started),
        restart_count: i32::try_from(view.restarts).unwrap_or(i32::MAX),
        state: Some(state(&view.state, runtime)),
        last_state: Some(v1::ContainerState {
            terminated: view.last.as_ref().map(|ended| terminated(ended, runtime)),
            ..v1::ContainerState::default()
        }),
        allocated_resources: resources.requests.clone(),
        resources: Some(resources),
        allocated_resources_status: device_status(view),
        ..v1::ContainerStatus::default()
    }
}

/// KEP-4680.
fn device_status(view: &ContainerView) -> Option<Vec<v1::ResourceStatus>> {
    let health = |(id, health): &(String, Health)| v1::ResourceHealth {
        resource_id: id.clone(),
        health: Some(health.name().to_owned()),
    };
    let of = |(name, devices): (&String, &Vec<_>)| v1::ResourceStatus {
        name: name.clone(),
        resources: Some(devices.iter().map(health).collect()),
    };
    (!view.devices.is_empty()).then(|| view.devices.iter().map(of).collect())
}

fn state(state: &ContainerState, runtime: Option<&str>) -> v1::ContainerState {
    match state {
        ContainerState::Waiting { reason, message } => v1::ContainerState {
            waiting: Some(v1::ContainerStateWaiting {
                reason: Some(reason.clone()),
                message: (!message.is_empty()).then(|| message.clone()),
            }),
            ..v1::ContainerState::default()
        },
        ContainerState::Running { since } => v1::ContainerState {
            running: Some(v1::ContainerStateRunning { started_at: Some(Time(*since)) }),
            ..v1::ContainerState::default()
        },
        ContainerState::Terminated(ended) => v1::ContainerState {
            terminated: Some(terminated(ended, runtime)),
            ..v1::ContainerState::default()
        },
    }
}

/// The state of a terminated container. As in the kubelet `signal` is left out, because runtimes report only the exit
/// code.
fn terminated(ended: &Ended, runtime: Option<&str>) -> v1::ContainerStateTerminated {
    v1::ContainerStateTerminated {
        container_id: id(&ended.id, runtime),
        exit_code: ended.exit_code,
        reason: Some(ended.reason.to_string()),
        message: (!ended.message.is_empty()).then(|| ended.message.clone()),
        started_at: ended.started.map(Time),
        finished_at: ended.finished.map(Time),
        signal: None,
    }
}

/// The container ID with the runtime's name as prefix (kubelet `ContainerID.String`); `None` if one of them is not known.
fn id(id: &str, runtime: Option<&str>) -> Option<String> {
    let runtime = runtime.filter(|_| !id.is_empty())?;
    Some(format!("{runtime}://{id}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nodewarden_eviction::NODE_LOW;
    use nodewarden_model::{ResizePending, fixture};

    #[test]
    fn a_running_pod() {
        let view = fixture::pod();
        let list =
            serde_json::to_value(list(&[Arc::new(view.clone())], "node-1", Some("containerd"))).unwrap();
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
            let pod = super::pod(&view, "node-1", runtime);
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
            let status = serde_json::to_value(status(&view, None)).unwrap();
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
        assert_eq!(
            conditions(started, started, true),
            format!("Initialized=True {}", unready("prepare web"))
        );
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
                ContainerState::Waiting { reason: "PodInitializing".into(), message: String::new() };
        }
        let conditions = |view: &PodView| conditions_of(&serde_json::to_value(status(view, None)).unwrap());
        assert_eq!(
            conditions(&view),
            "PodReadyToStartContainers=False \
             Initialized=False(ContainersNotInitialized containers with incomplete status: [prepare]) \
             Ready=False(ContainersNotReady containers with unready status: [web]) \
             ContainersReady=False(ContainersNotReady containers with unready status: [web]) PodScheduled=True"
        );
        (view.phase, view.reason, view.message) =
            (PodPhase::Failed, "Evicted".into(), format!("{NODE_LOW}memory"));
        view.evicted = Some(EvictionCause::NodePressure);
        let shown = serde_json::to_value(pod(&view, "node-1", None)).unwrap();
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
        view.reason.clear();
        view.evicted = None;
        view.resize = Some(ResizePending::Deferred("no room: none".into()));
        assert!(
            conditions(&view).ends_with(" PodScheduled=True PodResizePending=True(Deferred no room: none)")
        );
        view.resize = None;
        view.phase = PodPhase::Succeeded;
        assert_eq!(
            conditions(&view),
            "PodReadyToStartContainers=False Initialized=True(PodCompleted) Ready=False(PodCompleted) \
             ContainersReady=False(PodCompleted) PodScheduled=True"
        );
    }
}
