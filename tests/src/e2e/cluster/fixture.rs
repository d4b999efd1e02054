//! A node in a cluster: control plane, container runtime and the agent (or a kubelet), with a namespace for
//! the test.

use std::path::Path;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::node::Node;
use super::options::{NodeOptions, Prepared};
use crate::e2e::support::eventually;
use crate::ensure;
use crate::fixture::{Agent, Api, Cluster, Containerd, ControlPlane, Kubectl, free_port};
use crate::harness::{Context, Failure};

/// The directory of the node's certificates below that of the test.
pub const CERTIFICATES: &str = "pki";
/// How much of the kubelet's log is shown of a pod that should be gone.
const LINES_OF_LEFT: usize = 8;
/// How long a node may take until it is ready. A kubelet takes 20 s.
const READY_SECONDS: u64 = 60;

/// A cluster of one node. A test calls [`ClusterFixture::finish`] at its end.
pub struct ClusterFixture<'c> {
    context: &'c Context,
    node: Node<'c>,
    name: String,
    namespace: String,
    port: u16,
    containerd: Containerd,
    cluster: Cluster,
    api: Mutex<Api>,
    control_plane: Option<ControlPlane>,
}

impl<'c> ClusterFixture<'c> {
    /// Starts a node, and waits until it is ready. The control plane may be one that tests share.
    pub fn start(context: &'c Context) -> Result<Self, Failure> {
        Prepared::new(context)?.start(NodeOptions::default())
    }

    /// The same with a control plane that only this test uses, and may stop.
    pub fn start_alone(context: &'c Context) -> Result<Self, Failure> {
        Prepared::alone(context, None)?.start(NodeOptions::default())
    }

    /// Starts a node in a cluster.
    pub fn start_in(prepared: Prepared<'c>, options: &NodeOptions) -> Result<Self, Failure> {
        let Prepared { context, name, cluster, control_plane } = prepared;
        let containerd = Containerd::private(context)?;
        let port = free_port().map_err(Failure::file("a free port"))?;
        let name = name + &options.suffix;
        let node = Node::start(context, &cluster, &name, containerd.socket(), port, options)?;
        let namespace = name.clone();
        let api = Mutex::new(Api::new(&cluster)?);
        let this = Self { context, node, name, namespace, port, containerd, cluster, api, control_plane };
        this.wait_node_ready()?;
        this.make_namespace()?;
        Ok(this)
    }

    /// Ends the kubelet that runs the node first ([`NodeOptions::first_a_kubelet`]), and starts nodewarden in
    /// its place.
    ///
    /// # Errors
    /// The agent cannot be started, or the node was not started with a kubelet.
    pub fn take_over(self) -> Result<Self, Failure> {
        Ok(Self { node: self.node.take_over()?, ..self })
    }

    /// Ends nodewarden, and starts the kubelet again from which it has taken the node over.
    ///
    /// # Errors
    /// The kubelet cannot be started, or the node was not taken over.
    pub fn give_back(self) -> Result<Self, Failure> {
        Ok(Self { node: self.node.give_back()?, ..self })
    }

    pub fn context(&self) -> &'c Context {
        self.context
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster's files and clients.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The port of the node's server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The container runtime's socket.
    pub fn runtime(&self) -> &Path {
        self.containerd.socket()
    }

    /// The container runtime.
    pub fn containerd(&self) -> &Containerd {
        &self.containerd
    }

    /// The same, to kill and start it.
    pub fn containerd_mut(&mut self) -> &mut Containerd {
        &mut self.containerd
    }

    /// What runs the pods.
    pub fn runs_by(&self) -> &Node<'c> {
        &self.node
    }

    /// The same, to end and start it.
    pub fn runs_by_mut(&mut self) -> &mut Node<'c> {
        &mut self.node
    }

    /// The agent that runs.
    pub fn agent(&self) -> Result<&Agent, Failure> {
        self.node.agent()
    }

    /// Ends the agent and starts another one with its state, calling `meanwhile` in between.
    pub fn restart_agent(&mut self, meanwhile: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        self.node.stop_agent()?;
        meanwhile()?;
        self.node.start_agent()
    }

    /// Writes a manifest.
    pub fn write_manifest(&self, file: &str, pod: &Value) -> Result<(), Failure> {
        self.node.managed()?.write(file, pod)
    }

    /// Removes a manifest.
    pub fn remove_manifest(&self, file: &str) -> Result<(), Failure> {
        self.node.managed()?.remove(file)
    }

    /// The test's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The control plane of this test alone.
    ///
    /// # Errors
    /// The test was not started with [`ClusterFixture::start_alone`].
    pub fn control_plane(&mut self) -> Result<&mut ControlPlane, Failure> {
        let shared = || Failure::Unexpected("the control plane is shared".into());
        self.control_plane.as_mut().ok_or_else(shared)
    }

    /// An administrator's kubectl. Its commands are about the test's namespace if they go through
    /// [`ClusterFixture::run`].
    pub fn kubectl(&self) -> Kubectl {
        self.cluster.kubectl()
    }

    /// Runs kubectl in the test's namespace.
    pub fn run(&self, arguments: &[&str]) -> Result<String, Failure> {
        Ok(self.kubectl().run(&[&["--namespace", &self.namespace], arguments].concat())?)
    }

    /// Creates or changes an object in the test's namespace. A new pod is made without kubectl, which takes
    /// 0.15 s of a CPU.
    pub fn apply(&self, object: &Value) -> Result<(), Failure> {
        if object["kind"] == "Pod" {
            let path = format!("/api/v1/namespaces/{}/pods", self.namespace);
            // The account has its token, but the API server's admission may not have seen that yet.
            let made =
                eventually(self.context.patiently(20), "pods are refused for want of a token", || {
                    let made = self.api.lock().create(&path, object);
                    let is_early = made.as_ref().is_err_and(|error| error.to_string().contains(NO_TOKEN));
                    Ok((!is_early).then_some(made))
                })?;
            match made {
                Err(error) if error.status() == Some(409) => {}
                done => return Ok(done.map(drop)?),
            }
        }
        let arguments = ["--namespace", &self.namespace, "apply", "-f", "-"];
        Ok(self.kubectl().run_with(&arguments, object.to_string().as_bytes()).map(drop)?)
    }

    /// Objects of the test's namespace, by the arguments of `kubectl get`. Lists of pods, events and service
    /// accounts are asked for without kubectl, since tests ask for them many times a second while they wait.
    pub fn get(&self, arguments: &[&str]) -> Result<Value, Failure> {
        match list_path(&self.namespace, arguments) {
            Some(path) => self.ask(&path),
            None => Ok(self.kubectl().get(&[&["--namespace", &self.namespace], arguments].concat())?),
        }
    }

    /// What the API server answers to an administrator.
    fn ask(&self, path: &str) -> Result<Value, Failure> {
        Ok(self.api.lock().get(path)?)
    }

    /// Deletes an object, or all objects of a list, without kubectl. What is not there is deleted already.
    fn delete(&self, path: &str) -> Result<(), Failure> {
        match self.api.lock().delete(path) {
            Err(error) if error.status() == Some(404) => Ok(()),
            done => Ok(done.map(drop)?),
        }
    }

    /// A pod of the test's namespace, or `None` if there is none of this name.
    pub fn pod(&self, name: &str) -> Result<Option<Value>, Failure> {
        let list = self.get(&["pods", "--field-selector", &format!("metadata.name={name}")])?;
        Ok(list["items"].get(0).cloned())
    }

    /// Waits until `wanted` is true of a pod. The failure has its last status.
    pub fn wait_pod(
        &self,
        name: &str,
        what: &str,
        seconds: u64,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Failure> {
        let mut last = None;
        let found = eventually(self.context.patiently(seconds), "", || {
            last = self.pod(name)?;
            Ok(last.clone().filter(&wanted))
        });
        found.map_err(|failure| {
            let seen = last.map_or_else(|| "not there".to_owned(), |pod| pod["status"].to_string());
            let events = self.run(&["get", "events"]).unwrap_or_default();
            Failure::Unexpected(format!("pod {name} is not {what}{failure}: {seen}\nevents:\n{events}"))
        })
    }

    /// Waits until a pod is ready.
    pub fn wait_ready(&self, name: &str) -> Result<Value, Failure> {
        self.wait_pod(name, "ready", 60, |pod| condition(pod, "Ready") == Some("True"))
    }

    /// Waits until a pod is not there any more.
    pub fn wait_gone(&self, name: &str, seconds: u64) -> Result<(), Failure> {
        eventually(self.context.patiently(seconds), &format!("pod {name} is still there"), || {
            Ok(self.pod(name)?.is_none().then_some(()))
        })
    }

    /// The node's object.
    pub fn node(&self) -> Result<Value, Failure> {
        self.ask(&format!("/api/v1/nodes/{}", self.name))
    }

    /// Waits until the agent has renewed the node's lease after this call.
    pub fn wait_renewed(&self, seconds: u64) -> Result<(), Failure> {
        let version = || -> Result<Value, Failure> {
            let path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
            let lease = self.ask(&format!("{path}/{}", self.name))?;
            Ok(lease["spec"]["renewTime"].clone())
        };
        let before = version()?;
        eventually(self.context.patiently(seconds), "the node's lease is not renewed", || {
            Ok((version()? != before).then_some(()))
        })
    }

    /// Fails if the API server has refused the agent anything for want of rights.
    pub fn ensure_nothing_forbidden(&self) -> Result<(), Failure> {
        let Ok(agent) = self.node.agent() else { return Ok(()) };
        let log = agent.log();
        let refused: Vec<&str> = log.lines().filter(|line| is_refusal(line)).collect();
        ensure!(refused.is_empty(), "the API server refused: {refused:#?}");
        Ok(())
    }

    /// Deletes the test's pods, and waits until nothing of them is on the node; then removes the node.
    pub fn finish(self) -> Result<(), Failure> {
        self.delete(&format!("/apis/apps/v1/namespaces/{}/deployments", self.namespace))?;
        self.delete(&format!("/api/v1/namespaces/{}/pods", self.namespace))?;
        let mut left = Vec::new();
        let gone = eventually(self.context.patiently(60), "", || {
            let list = self.get(&["pods"])?;
            left = list["items"].as_array().cloned().unwrap_or_default();
            Ok(left.is_empty().then_some(()))
        });
        gone.map_err(|_| {
            let left: Vec<String> = left.iter().map(|pod| self.why_left(pod)).collect();
            Failure::Unexpected(format!("pods that were deleted are still there: {}", left.join("\n")))
        })?;
        let sandboxes = crate::fixture::Cri::connect(self.containerd.socket())?;
        // A kubelet removes a pod's sandbox a while after the pod is gone from the API.
        if let Node::Nodewarden { .. } = self.node {
            let mut left = Vec::new();
            let removed = eventually(self.context.patiently(20), "", || {
                left = sandboxes.sandboxes()?;
                Ok(left.is_empty().then_some(()))
            });
            removed.map_err(|_| {
                Failure::Unexpected(format!("sandboxes of pods that are gone from the API: {left:?}"))
            })?;
        }
        self.delete(&format!("/api/v1/nodes/{}", self.name))?;
        self.delete(&format!("/api/v1/namespaces/{}", self.namespace))
    }

    /// A pod that should be gone, with what the kubelet has last logged of it.
    fn why_left(&self, pod: &Value) -> String {
        let metadata = &pod["metadata"];
        let log = self.node.kubelet_lines(metadata["uid"].as_str().unwrap_or_default(), LINES_OF_LEFT);
        format!(
            "{}, deleted at {}, phase {}, containers {}\n{}",
            metadata["name"],
            metadata["deletionTimestamp"],
            pod["status"]["phase"],
            pod["status"]["containerStatuses"],
            log.join("\n")
        )
    }

    fn wait_node_ready(&self) -> Result<(), Failure> {
        let mut last = String::new();
        let ready = eventually(self.context.patiently(READY_SECONDS), "", || {
            match self.node() {
                Ok(node) if condition(&node, "Ready") == Some("True") => return Ok(Some(())),
                Ok(node) => last = node["status"]["conditions"].to_string(),
                Err(error) => last = error.to_string(),
            }
            Ok(None)
        });
        ready.map_err(|failure| {
            let fatal = self.node.fatal().map(|line| format!("; the kubelet: {line}")).unwrap_or_default();
            Failure::Unexpected(format!("node {} is not ready{failure}: {last}{fatal}", self.name))
        })
    }

    fn make_namespace(&self) -> Result<(), Failure> {
        let object =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": self.namespace } });
        self.api.lock().create("/api/v1/namespaces", &object)?;
        // Pods are refused before their service account has its token.
        eventually(self.context.patiently(20), "the namespace gets no service account", || {
            let account = self.get(&["serviceaccounts", "--field-selector", "metadata.name=default"])?;
            Ok(account["items"][0]["secrets"].get(0).is_some().then_some(()))
        })
    }
}

/// How the API server refuses a pod whose service account has no token that it knows of.
const NO_TOKEN: &str = "No API token found for service account";

/// The status of a condition of a pod or node.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == kind)?["status"].as_str()
}

fn is_refusal(line: &str) -> bool {
    line.contains("forbidden") || line.contains("Forbidden") || line.contains(" 403")
}

/// The id of the pod's only container.
pub fn container_id(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["containerID"]
}

/// Fails unless the pod's only container has run without an end since it was started.
pub fn ensure_no_restart(pod: &Value) -> Result<(), Failure> {
    let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
    ensure!(restarts == 0, "the container was restarted: {}", pod["status"]);
    Ok(())
}

/// What is asked for without kubectl.
const LISTED: [&str; 3] = ["pods", "events", "serviceaccounts"];

/// The path of a list of what is [`LISTED`], by the arguments of `kubectl get`; `None` for anything else.
fn list_path(namespace: &str, arguments: &[&str]) -> Option<String> {
    let (kind, selectors) = arguments.split_first().filter(|(kind, _)| LISTED.contains(kind))?;
    let mut path = format!("/api/v1/namespaces/{namespace}/{kind}?");
    for pair in selectors.chunks(2) {
        match pair {
            ["--field-selector", selector] => path += &format!("fieldSelector={selector}&"),
            ["--selector", selector] => path += &format!("labelSelector={selector}&"),
            _ => return None,
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_pods_and_events_have_a_path() {
        for (arguments, expected) in [
            (&["pods"][..], Some("/api/v1/namespaces/n/pods?")),
            (&["pods", "--selector", "app=web"], Some("/api/v1/namespaces/n/pods?labelSelector=app=web&")),
            (
                &["events", "--field-selector", "reason=Killing"],
                Some("/api/v1/namespaces/n/events?fieldSelector=reason=Killing&"),
            ),
            (&["pods", "web"], None),
            (&["pods", "--selector"], None),
            (&["job", "nodewarden-undo"], None),
        ] {
            assert_eq!(list_path("n", arguments).as_deref(), expected, "{arguments:?}");
        }
    }
}
