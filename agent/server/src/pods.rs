//! Finds the pod and the container that a request names, and the run of it whose log is meant. Pure.
//!
//! Messages are the kubelet's: `kubectl` shows them.

use std::sync::Arc;

use k8s_openapi::List;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use nodewarden_cri::logs::LogPath;
use nodewarden_model::{ContainerState, ContainerView, PodView, WaitingReason};

use crate::route::PodTarget;

/// Why there is no such pod or container, or no log of it.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum NotFound {
    /// There is no such pod.
    #[error("pod {name:?} does not exist")]
    Pod {
        /// The name as requested.
        name: String,
    },
    /// The pod has no such container.
    #[error("container {name:?} not found in pod {pod:?}")]
    Container {
        /// The name as requested.
        name: String,
        /// Name of the pod.
        pod: String,
    },
    /// The container does not run.
    #[error("container not found ({name:?}): it is {state}")]
    NotRunning {
        /// Name of the container.
        name: String,
        /// What it does instead.
        state: String,
    },
    /// The pod has no sandbox.
    #[error("pod {name:?} has no running sandbox")]
    NoSandbox {
        /// Name of the pod.
        name: String,
    },
    /// There is no log.
    #[error("{0}")]
    Log(String),
}

/// The pod of a request. A pod of a manifest also has the name that its mirror has: with the node's behind
/// it. A pod that is terminating yields to a newer one of its name.
pub fn find(pods: &[Arc<PodView>], target: &PodTarget, node: &str) -> Result<Arc<PodView>, NotFound> {
    let mirrored = target.name.strip_suffix(node).and_then(|name| name.strip_suffix('-'));
    let named = |name: &str| {
        let found =
            pods.iter().filter(|view| view.pod.namespace == target.namespace && view.pod.name == name);
        let of_uid = found.clone().find(|view| !target.uid.is_empty() && view.pod.uid == target.uid);
        let newest = || found.clone().min_by_key(|view| view.terminating.is_some());
        of_uid.or_else(newest).cloned()
    };
    let not_found = || NotFound::Pod { name: target.name.clone() };
    let found = named(&target.name).or_else(|| mirrored.and_then(named)).ok_or_else(not_found)?;
    // The mirror of a pod of a manifest has another uid.
    let is_other = !target.uid.is_empty() && found.pod.uid != target.uid && found.origin.is_api();
    if is_other { Err(not_found()) } else { Ok(found) }
}

/// The container of this name.
pub fn container<'a>(pod: &'a PodView, name: &str) -> Result<&'a ContainerView, NotFound> {
    let missing = || NotFound::Container { name: name.to_owned(), pod: pod.pod.name.clone() };
    pod.containers.iter().find(|container| container.name == name).ok_or_else(missing)
}

/// The running container of this name.
pub fn running<'a>(pod: &'a PodView, name: &str) -> Result<&'a ContainerView, NotFound> {
    let found = container(pod, name)?;
    let state = match &found.state {
        ContainerState::Running { .. } if !found.id.is_empty() => return Ok(found),
        ContainerState::Running { .. } => "starting".to_owned(),
        ContainerState::Waiting { reason, .. } => format!("waiting ({reason})"),
        ContainerState::Terminated(ended) => format!("terminated ({})", ended.reason),
    };
    Err(NotFound::NotRunning { name: name.to_owned(), state })
}

/// The sandbox of a pod.
pub fn sandbox(pod: &PodView) -> Result<&str, NotFound> {
    let missing = || NotFound::NoSandbox { name: pod.pod.name.clone() };
    Some(pod.sandbox_id.as_str()).filter(|id| !id.is_empty()).ok_or_else(missing)
}

/// Whether the container has a terminal, as its pod says.
pub fn has_terminal(pod: &PodView, name: &str) -> bool {
    let spec = pod.pod.spec();
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let own = all.filter(|container| container.name == name).map(|container| container.tty);
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let ephemeral = ephemeral.filter(|container| container.name == name).map(|container| container.tty);
    own.chain(ephemeral).next().flatten().unwrap_or(false)
}

/// The log of the run that is meant, of those that have a log, newest first (`validateContainerLogStatus`,
/// pkg/kubelet/kubelet_pods.go): the container that is there or, if it waits, the one before.
pub fn log(
    mut runs: Vec<(u32, LogPath)>,
    previous: bool,
    container: &ContainerView,
    pod: &PodView,
) -> Result<LogPath, NotFound> {
    let (name, pod) = (&container.name, &pod.pod.name);
    let waits = matches!(container.state, ContainerState::Waiting { .. });
    // The newest log of a container that waits to be started again is that of the one before.
    let newest = usize::from(previous && !waits);
    let found = (!previous || container.last.is_some()) && newest < runs.len();
    match &container.state {
        _ if found => Ok(runs.swap_remove(newest).1),
        _ if previous => {
            Err(NotFound::Log(format!("previous terminated container {name:?} in pod {pod:?} not found")))
        }
        ContainerState::Waiting { reason, .. } => {
            let why = match reason {
                WaitingReason::ErrImagePull => "image can't be pulled",
                WaitingReason::ImagePullBackOff => "trying and failing to pull image",
                reason => reason.name(),
            };
            Err(NotFound::Log(format!("container {name:?} in pod {pod:?} is waiting to start: {why}")))
        }
        ContainerState::Terminated(_) => {
            Err(NotFound::Log(format!("container {name:?} in pod {pod:?} is terminated")))
        }
        ContainerState::Running { .. } => {
            Err(NotFound::Log(format!("container {name:?} in pod {pod:?} has no log")))
        }
    }
}

/// The pods of which a container runs, with no more than their names (`GetRunningPods`).
pub fn running_list(pods: &[Arc<PodView>]) -> List<v1::Pod> {
    let runs = |own: &&ContainerView| matches!(own.state, ContainerState::Running { .. });
    let shown = |own: &ContainerView| v1::Container {
        name: own.name.clone(),
        image: Some(own.image.clone()),
        ..v1::Container::default()
    };
    let item = |view: &Arc<PodView>| {
        let containers: Vec<v1::Container> = view.containers.iter().filter(runs).map(shown).collect();
        (!containers.is_empty()).then(|| v1::Pod {
            metadata: ObjectMeta {
                name: Some(view.pod.name.clone()),
                namespace: Some(view.pod.namespace.clone()),
                uid: Some(view.pod.uid.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(v1::PodSpec { containers, ..v1::PodSpec::default() }),
            status: None,
        })
    };
    List { items: pods.iter().filter_map(item).collect(), ..List::default() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use nodewarden_model::fixture;

    use super::*;

    fn target(name: &str, uid: &str) -> PodTarget {
        PodTarget { namespace: "shop".into(), name: name.into(), uid: uid.into() }
    }

    #[test]
    fn pods_by_name_uid_and_the_name_of_the_mirror() {
        let current = Arc::new(fixture::pod());
        let mut old = fixture::pod();
        let mut inner = (*old.pod).clone();
        inner.uid = "old".into();
        (old.pod, old.terminating) = (Arc::new(inner), Some(old.started));
        old.origin = "api:shop/cart-5d9c".into();
        let pods = [Arc::new(old), current];
        let uid = |name, uid| find(&pods, &target(name, uid), "node-1").map(|view| view.pod.uid.clone());
        assert_eq!(uid("cart-5d9c", ""), Ok("8c5e".into()));
        assert_eq!(uid("cart-5d9c", "old"), Ok("old".into()));
        assert_eq!(uid("cart-5d9c-node-1", ""), Ok("8c5e".into()));
        assert_eq!(uid("cart-5d9c-node-1", "of the mirror"), Ok("8c5e".into()));
        for name in ["cart", "cart-5d9c-node-2", "cart-5d9cnode-1", "node-1", "-node-1"] {
            assert_eq!(uid(name, "").unwrap_err().to_string(), format!("pod {name:?} does not exist"));
        }
        let api = &pods[..1];
        assert!(find(api, &target("cart-5d9c", "other"), "node-1").is_err());
        let elsewhere = PodTarget { namespace: "test".into(), ..target("cart-5d9c", "") };
        assert!(find(&pods, &elsewhere, "node-1").is_err());
    }

    #[test]
    fn containers_that_run() {
        let mut pod = fixture::pod();
        assert_eq!(running(&pod, "web").unwrap().id, "c0ffee");
        let missing = running(&pod, "db").unwrap_err().to_string();
        assert_eq!(missing, "container \"db\" not found in pod \"cart-5d9c\"");
        let web = pod.containers.iter().position(|own| own.name == "web").unwrap();
        pod.containers[web].state =
            ContainerState::Waiting { reason: WaitingReason::CrashLoopBackOff, message: String::new() };
        let waiting = running(&pod, "web").unwrap_err().to_string();
        assert_eq!(waiting, "container not found (\"web\"): it is waiting (CrashLoopBackOff)");
        pod.sandbox_id.clear();
        assert_eq!(sandbox(&pod).unwrap_err().to_string(), "pod \"cart-5d9c\" has no running sandbox");
        assert!(!has_terminal(&pod, "web"));
    }

    #[test]
    fn the_run_whose_log_is_meant() {
        let mut pod = fixture::pod();
        let web = pod.containers.iter().position(|own| own.name == "web").unwrap();
        let path = |run: u32| LogPath::new(Path::new("/logs/pod"), format!("web/{run}.log"));
        let runs = |numbers: &[u32]| numbers.iter().map(|run| (*run, path(*run))).collect::<Vec<_>>();
        let waiting = |reason| ContainerState::Waiting { reason, message: String::new() };
        let running = pod.containers[web].state.clone();
        let (crashed, creating) =
            (waiting(WaitingReason::CrashLoopBackOff), waiting(WaitingReason::ContainerCreating));
        let (error, back_off) =
            (waiting(WaitingReason::ErrImagePull), waiting(WaitingReason::ImagePullBackOff));
        let last = pod.containers[web].last.clone();
        assert!(last.is_some());
        let text = |text: &str| Err(format!("container \"web\" in pod \"cart-5d9c\" {text}"));
        let gone = || Err("previous terminated container \"web\" in pod \"cart-5d9c\" not found".to_owned());
        for (state, last, numbers, current, previous) in [
            (&running, &last, &[2, 1][..], Ok(path(2)), Ok(path(1))),
            (&running, &last, &[2], Ok(path(2)), gone()),
            (&running, &None, &[0], Ok(path(0)), gone()),
            (&running, &None, &[], text("has no log"), gone()),
            (&crashed, &last, &[2, 1], Ok(path(2)), Ok(path(2))),
            (&creating, &None, &[], text("is waiting to start: ContainerCreating"), gone()),
            (&error, &None, &[], text("is waiting to start: image can't be pulled"), gone()),
            (&back_off, &None, &[], text("is waiting to start: trying and failing to pull image"), gone()),
        ] {
            (pod.containers[web].state, pod.containers[web].last) = (state.clone(), last.clone());
            let log = |previous| {
                log(runs(numbers), previous, &pod.containers[web], &pod).map_err(|error| error.to_string())
            };
            assert_eq!((log(false), log(true)), (current, previous), "{state:?} {numbers:?}");
        }
    }

    #[test]
    fn the_list_of_what_runs() {
        let list = running_list(&[Arc::new(fixture::pod())]);
        assert_eq!(list.items.len(), 1);
        let containers = &list.items[0].spec.as_ref().unwrap().containers;
        let names: Vec<&str> = containers.iter().map(|own| own.name.as_str()).collect();
        assert_eq!(names, ["web"]);
    }
}
