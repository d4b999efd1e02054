//! The status of one container.

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use nodewarden_manifest::Container;
use nodewarden_model::{ContainerState, ContainerView, Ended, Health};

use super::transitions::second;

/// How often a container is known to have restarted at least.
pub(super) type Floor<'a> = &'a dyn Fn(&str) -> u32;

/// `spec`: the container in the pod's spec. `runtime`: the name of the container runtime. `floor`: how often
/// the container is known to have restarted at least.
pub(super) fn container_status(
    view: &ContainerView,
    declared: &Container,
    spec: Option<&v1::Container>,
    runtime: Option<&str>,
    floor: u32,
) -> v1::ContainerStatus {
    let allocated = declared.resources.to_kubernetes();
    // KEP-1287: what the container has, which in a resize is not what the pod was admitted with.
    let resources = view.resources.as_ref().map_or_else(|| allocated.clone(), |own| own.to_kubernetes());
    v1::ContainerStatus {
        name: view.name.clone(),
        image: view.image.clone(),
        image_id: view.image_id.clone(),
        container_id: id(&view.id, runtime),
        ready: view.ready,
        started: Some(view.started),
        restart_count: i32::try_from(view.restarts.max(floor)).unwrap_or(i32::MAX),
        state: Some(state(&view.state, runtime)),
        last_state: Some(v1::ContainerState {
            terminated: view.last.as_ref().map(|ended| terminated(ended, runtime)),
            ..v1::ContainerState::default()
        }),
        allocated_resources: allocated.requests,
        resources: Some(resources),
        allocated_resources_status: device_status(view),
        volume_mounts: spec.filter(|_| !view.id.is_empty()).and_then(volume_mounts),
        ..v1::ContainerStatus::default()
    }
}

/// KEP-3857: a mount that has to be read-only recursively is refused where it cannot be.
fn volume_mounts(spec: &v1::Container) -> Option<Vec<v1::VolumeMountStatus>> {
    let of = |mount: &v1::VolumeMount| {
        let read_only = mount.read_only == Some(true);
        let recursive = match mount.recursive_read_only.as_deref() {
            Some("Enabled") => "Enabled",
            _ => "Disabled",
        };
        // What is mounted if possible was not looked at.
        let known = read_only && mount.recursive_read_only.as_deref() != Some("IfPossible");
        v1::VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only: read_only.then_some(true),
            recursive_read_only: known.then(|| recursive.to_owned()),
        }
    };
    Some(spec.volume_mounts.as_ref()?.iter().map(of).collect())
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
                reason: Some(reason.to_string()),
                message: (!message.is_empty()).then(|| message.clone()),
            }),
            ..v1::ContainerState::default()
        },
        ContainerState::Running { since } => v1::ContainerState {
            running: Some(v1::ContainerStateRunning { started_at: Some(Time(second(*since))) }),
            ..v1::ContainerState::default()
        },
        ContainerState::Terminated(ended) => v1::ContainerState {
            terminated: Some(terminated(ended, runtime)),
            ..v1::ContainerState::default()
        },
    }
}

/// The state of a terminated container. As in the kubelet `signal` is left out, because runtimes report only
/// the exit code.
fn terminated(ended: &Ended, runtime: Option<&str>) -> v1::ContainerStateTerminated {
    v1::ContainerStateTerminated {
        container_id: id(&ended.id, runtime),
        exit_code: ended.exit_code,
        reason: Some(ended.reason.to_string()),
        message: (!ended.message.is_empty()).then(|| ended.message.clone()),
        started_at: ended.started.map(second).map(Time),
        finished_at: ended.finished.map(second).map(Time),
        signal: None,
    }
}

/// The container ID with the runtime's name as prefix (kubelet `ContainerID.String`); `None` if one of them
/// is not known.
fn id(id: &str, runtime: Option<&str>) -> Option<String> {
    let runtime = runtime.filter(|_| !id.is_empty())?;
    Some(format!("{runtime}://{id}"))
}
