//! Converts from Kubernetes' types: parses quantities and fills in defaults, without validation.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use super::{
    Container, ContainerKind, EphemeralContainer, Pod, Problem, Quantity, ResourceList, Resources, Spec,
    defaults, priority, qos,
};
use crate::volume_source::EmptyDir;
use crate::{PodKind, QosClass};

/// The pod without its invalid quantities, which are returned as problems. A pod without a spec has no
/// containers.
pub(super) fn read(pod: v1::Pod) -> (Pod, Vec<Problem>) {
    let spec = pod.spec.unwrap_or_default();
    let mut problems = Vec::new();
    let mut containers = containers(&spec.containers, "spec.containers", false, &mut problems);
    let init = spec.init_containers.as_deref().unwrap_or_default();
    let mut init_containers = self::containers(init, "spec.initContainers", true, &mut problems);
    let mut own = spec.resources.as_ref().map(|own| resources(own, "spec.resources", &mut problems));
    let mut overhead = list(spec.overhead.as_ref(), "spec.overhead", &mut problems);
    defaults::fill_in(&mut containers, &mut init_containers, own.as_mut(), &mut overhead);

    let class = spec.priority_class_name.as_deref().and_then(priority::of_class);
    let mut pod = Pod {
        kind: PodKind::Static,
        uid: pod.metadata.uid.unwrap_or_default(),
        namespace: pod.metadata.namespace.filter(|n| !n.is_empty()).unwrap_or_else(|| "default".into()),
        name: pod.metadata.name.unwrap_or_default(),
        labels: pod.metadata.labels.unwrap_or_default(),
        annotations: pod.metadata.annotations.unwrap_or_default(),
        priority: spec.priority.or(class).unwrap_or(0),
        qos: QosClass::BestEffort,
        init_containers,
        containers,
        ephemeral_containers: ephemeral(&spec),
        overhead,
        resources: own,
        host_network: spec.host_network == Some(true),
        active_deadline_seconds: spec.active_deadline_seconds,
        empty_dirs: EmptyDir::all(&spec),
        kept_spec: Spec::new(spec),
    };
    pod.qos = qos::class(&pod);
    (pod, problems)
}

fn containers(all: &[v1::Container], at: &str, init: bool, problems: &mut Vec<Problem>) -> Vec<Container> {
    let read = |(index, container): (usize, &v1::Container)| Container {
        name: container.name.clone(),
        kind: match container.restart_policy.as_deref() {
            Some("Always") if init => ContainerKind::Sidecar,
            _ if init => ContainerKind::Init,
            _ => ContainerKind::Regular,
        },
        resources: container.resources.as_ref().map_or_else(Arc::default, |own| {
            Arc::new(resources(own, &format!("{at}[{index}].resources"), problems))
        }),
    };
    all.iter().enumerate().map(read).collect()
}

/// They have the fields of other containers, but for the target.
fn ephemeral(spec: &v1::PodSpec) -> Vec<EphemeralContainer> {
    let read = |own: &v1::EphemeralContainer| EphemeralContainer {
        container: Container {
            name: own.name.clone(),
            kind: ContainerKind::Ephemeral,
            resources: Arc::default(),
        },
        spec: container_of(own.clone()),
        target: own.target_container_name.clone().filter(|name| !name.is_empty()),
    };
    spec.ephemeral_containers.iter().flatten().map(read).collect()
}

/// All fields of an ephemeral container but for its target.
fn container_of(own: v1::EphemeralContainer) -> v1::Container {
    v1::Container {
        args: own.args,
        command: own.command,
        env: own.env,
        env_from: own.env_from,
        image: own.image,
        image_pull_policy: own.image_pull_policy,
        lifecycle: own.lifecycle,
        liveness_probe: own.liveness_probe,
        name: own.name,
        ports: own.ports,
        readiness_probe: own.readiness_probe,
        resize_policy: own.resize_policy,
        resources: own.resources,
        restart_policy: own.restart_policy,
        restart_policy_rules: own.restart_policy_rules,
        security_context: own.security_context,
        startup_probe: own.startup_probe,
        stdin: own.stdin,
        stdin_once: own.stdin_once,
        termination_message_path: own.termination_message_path,
        termination_message_policy: own.termination_message_policy,
        tty: own.tty,
        volume_devices: own.volume_devices,
        volume_mounts: own.volume_mounts,
        working_dir: own.working_dir,
    }
}

fn resources(text: &v1::ResourceRequirements, at: &str, problems: &mut Vec<Problem>) -> Resources {
    Resources {
        limits: list(text.limits.as_ref(), &format!("{at}.limits"), problems),
        requests: list(text.requests.as_ref(), &format!("{at}.requests"), problems),
    }
}

fn list(text: Option<&BTreeMap<String, Text>>, at: &str, problems: &mut Vec<Problem>) -> ResourceList {
    let mut list = ResourceList::new();
    for (name, Text(text)) in text.into_iter().flatten() {
        // Kubernetes accepts white space around a quantity.
        match Quantity::parse(text.trim()) {
            Ok(quantity) => {
                list.insert(name.clone(), quantity);
            }
            Err(error) => {
                problems.push(Problem::new(
                    format!("{at}[{name}]"),
                    text,
                    format!("is not a quantity: {}", error.fault),
                ));
            }
        }
    }
    list
}
