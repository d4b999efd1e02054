//! The calls of `nodewarden.v1.Pods`: managed pods with their resource usage.

mod convert;
mod probe;

use std::sync::Arc;

use nodewarden_proto::nodewarden::v1 as proto;
use proto::pods_server::Pods;
use tonic::{Request, Response, Status};

use super::time;
use nodewarden_model::{AgentState, PodView, ProbesView, Snapshot};
use nodewarden_tasks::blocking;

/// Implements the calls.
pub(super) struct Service {
    state: Arc<dyn AgentState>,
}

impl Service {
    /// The service of this agent.
    pub(super) fn new(state: Arc<dyn AgentState>) -> Self {
        Self { state }
    }
}

#[tonic::async_trait]
impl Pods for Service {
    async fn list(
        &self,
        request: Request<proto::ListPodsRequest>,
    ) -> Result<Response<proto::ListPodsResponse>, Status> {
        let (state, request) = (Arc::clone(&self.state), request.into_inner());
        // A reading of the node takes milliseconds.
        let answer = blocking::QUERIES.run(move || {
            let mode = state.status().mode;
            let probes = if request.probes { state.probes() } else { ProbesView::default() };
            let (pods, snapshot, runtime) = (state.shown_pods(), state.snapshot(), state.runtime_name());
            proto::ListPodsResponse { mode, ..list(&pods, &snapshot, &probes, runtime.as_deref(), &request) }
        });
        let answer = answer.await.map_err(|e| Status::internal(format!("reading the node failed: {e}")))?;
        Ok(Response::new(answer))
    }
}

/// The requested pods, sorted by namespace and name, with their probes from `probes`. `runtime` is the name
/// that the container runtime gives itself.
pub fn list(
    views: &[Arc<PodView>],
    snapshot: &Snapshot,
    probes: &ProbesView,
    runtime: Option<&str>,
    request: &proto::ListPodsRequest,
) -> proto::ListPodsResponse {
    let mut wanted: Vec<&Arc<PodView>> = views.iter().filter(|view| matches(view, request)).collect();
    wanted.sort_by_key(|view| (&view.pod.namespace, &view.pod.name, view.started));
    let (used, probes) = (convert::Used::of(snapshot), probe::Probes::of(probes));
    let node = &snapshot.machine.node_name;
    let pods = wanted.into_iter().map(|view| proto::Pod {
        kubernetes: if request.kubernetes { convert::kubernetes(view, node, runtime) } else { String::new() },
        ..convert::pod(view, &used, &probes)
    });
    proto::ListPodsResponse {
        time: Some(time::from_system_time(snapshot.time)),
        pods: pods.collect(),
        mode: String::new(),
    }
}

fn matches(view: &PodView, request: &proto::ListPodsRequest) -> bool {
    let pod = &view.pod;
    let named = |wanted: &str| match wanted.split_once('/') {
        Some((namespace, name)) => pod.namespace == namespace && pod.name == name,
        None => pod.uid == wanted || pod.name == wanted,
    };
    (request.namespace.is_empty() || request.namespace == pod.namespace)
        && (request.pod.is_empty() || named(&request.pod))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_model::fixture::Node;

    fn asked(namespace: &str, pod: &str) -> proto::ListPodsResponse {
        let node = Node::default();
        let request = proto::ListPodsRequest {
            namespace: namespace.into(),
            pod: pod.into(),
            ..proto::ListPodsRequest::default()
        };
        list(&node.pods(), &node.snapshot(), &node.probes(), None, &request)
    }

    #[test]
    fn by_namespace_name_and_uid() {
        for (namespace, pod, found) in [
            ("", "", 1),
            ("shop", "", 1),
            ("other", "", 0),
            ("", "cart-5d9c", 1),
            ("", "shop/cart-5d9c", 1),
            ("", "other/cart-5d9c", 0),
            ("", "8c5e", 1),
            ("other", "8c5e", 0),
            ("", "cart", 0),
        ] {
            assert_eq!(asked(namespace, pod).pods.len(), found, "{namespace} {pod}");
        }
    }

    #[test]
    fn sorted_by_namespace_and_name() {
        let node = Node::default();
        let named = |namespace: &str, name: &str| {
            let mut view = nodewarden_model::fixture::pod();
            let pod = Arc::make_mut(&mut view.pod);
            (pod.namespace, pod.name) = (namespace.into(), name.into());
            Arc::new(view)
        };
        let views = [named("b", "a"), named("a", "z"), named("a", "b")];
        let (probes, request) = (ProbesView::default(), proto::ListPodsRequest::default());
        let answer = list(&views, &node.snapshot(), &probes, None, &request);
        let names: Vec<_> = answer.pods.iter().map(|p| format!("{}/{}", p.namespace, p.name)).collect();
        assert_eq!(names, ["a/b", "a/z", "b/a"]);
    }

    #[test]
    fn everything_that_is_known() {
        let pod = asked("", "").pods.remove(0);
        assert_eq!(
            (pod.phase.as_str(), pod.qos.as_str(), &pod.ips[..]),
            ("Running", "Burstable", &["10.0.0.7".to_owned()][..])
        );
        let used = pod.r#use.unwrap();
        assert_eq!(
            (used.memory_working_set_bytes, used.memory_limit_bytes),
            (Some(64 << 20), Some(128 << 20))
        );
        let [prepare, web] = &pod.containers[..] else { panic!("two containers") };
        assert_eq!((prepare.kind.as_str(), web.kind.as_str()), ("init", "container"));
        assert_eq!(prepare.r#use, None);
        assert_eq!(web.r#use.as_ref().unwrap().memory_working_set_bytes, Some(63 << 20));
        assert_eq!(web.last.as_ref().unwrap().oom.as_ref().unwrap().pid, 4711);
        assert_eq!(web.requests["memory"], "64Mi");
        assert_eq!((prepare.probes.len(), web.probes.len()), (0, 3));
    }

    #[test]
    fn as_kubernetes_writes_it() {
        let node = Node::default();
        let request = proto::ListPodsRequest { kubernetes: true, ..proto::ListPodsRequest::default() };
        let answer = list(&node.pods(), &node.snapshot(), &node.probes(), None, &request);
        let pod: serde_json::Value = serde_json::from_str(&answer.pods[0].kubernetes).unwrap();
        assert_eq!((&pod["kind"], &pod["spec"]["nodeName"]), (&"Pod".into(), &"node-1".into()));
    }
}
