//! A node in a cluster: control plane, container runtime and the agent (or a kubelet), with a namespace for the test.

use std::path::Path;

use serde_json::{Value, json};

use super::node::{Node, NodeOptions};
use crate::e2e::support::eventually;
use crate::ensure;
use crate::fixture::{Cluster, Containerd, ControlPlane, ControlPlaneOptions, Kubectl};
use crate::harness::{Context, Failure};

/// Environment variable: the directory of a control plane that all tests share. Without it each test starts its own.
pub const SHARED: &str = "NODEWARDEN_CLUSTER";
/// How long a node may take until it is ready. A kubelet takes 20 s.
const READY_SECONDS: u64 = 60;

/// A cluster of one node. A test calls [`ClusterFixture::finish`] at its end.
pub struct ClusterFixture<'c> {
    context: &'c Context,
    node: Node<'c>,
    name: String,
    namespace: String,
    containerd: Containerd,
    cluster: Cluster,
    control_plane: Option<ControlPlane>,
}

impl<'c> ClusterFixture<'c> {
    /// Starts a node, and waits until it is ready. The control plane may be one that tests share.
    pub fn start(context: &'c Context) -> Result<Self, Failure> {
        match std::env::var_os(SHARED) {
            Some(folder) => Self::in_cluster(
                context,
                Cluster::open(Path::new(&folder))?,
                &NodeOptions::from_environment(),
            ),
            None => Self::start_alone(context),
        }
    }

    /// The same with a control plane that only this test uses, and may stop.
    pub fn start_alone(context: &'c Context) -> Result<Self, Failure> {
        Self::start_with(context, &NodeOptions::from_environment())
    }

    /// The same with a node of this kind.
    pub fn start_with(context: &'c Context, options: &NodeOptions<'_>) -> Result<Self, Failure> {
        let control_plane = own_control_plane(context, false)?;
        let mut this = Self::in_cluster(context, control_plane.cluster().clone(), options)?;
        this.control_plane = Some(control_plane);
        Ok(this)
    }

    /// Starts a node in a cluster of others.
    pub fn in_cluster(
        context: &'c Context,
        cluster: Cluster,
        options: &NodeOptions<'_>,
    ) -> Result<Self, Failure> {
        let containerd = Containerd::private(context)?;
        let test = context.name.replace('_', "-");
        let name = format!("n{}-{test}{}", context.runner(), options.suffix);
        let node = Node::start(context, &cluster, &name, containerd.socket(), options)?;
        let namespace = name.clone();
        let this = Self { context, node, name, namespace, containerd, cluster, control_plane: None };
        this.wait_node_ready()?;
        this.make_namespace()?;
        Ok(this)
    }

    pub fn context(&self) -> &'c Context {
        self.context
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
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

    /// The cluster's files and clients.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
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

    /// Creates or changes an object in the test's namespace.
    pub fn apply(&self, object: &Value) -> Result<(), Failure> {
        let arguments = ["--namespace", &self.namespace, "apply", "-f", "-"];
        Ok(self.kubectl().run_with(&arguments, object.to_string().as_bytes()).map(drop)?)
    }

    /// Objects of the test's namespace.
    pub fn get(&self, arguments: &[&str]) -> Result<Value, Failure> {
        Ok(self.kubectl().get(&[&["--namespace", &self.namespace], arguments].concat())?)
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
        Ok(self.kubectl().get(&["node", &self.name])?)
    }

    /// Deletes the test's pods, and waits until nothing of them is on the node; then removes the node.
    pub fn finish(self) -> Result<(), Failure> {
        self.run(&["delete", "deployments,pods", "--all", "--wait=false"])?;
        let mut left = String::new();
        let gone = eventually(self.context.patiently(60), "", || {
            left = self.run(&["get", "pods", "-o", "name"])?;
            Ok(left.is_empty().then_some(()))
        });
        gone.map_err(|_| Failure::Unexpected(format!("pods that were deleted are still there: {left}")))?;
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
        self.kubectl().run(&["delete", "node", &self.name, "--wait=false"])?;
        self.kubectl().run(&["delete", "namespace", &self.namespace, "--wait=false"])?;
        Ok(())
    }

    fn wait_node_ready(&self) -> Result<(), Failure> {
        let mut last = String::new();
        let ready = eventually(self.context.patiently(READY_SECONDS), "", || {
            match self.kubectl().get(&["node", &self.name]) {
                Ok(node) if condition(&node, "Ready") == Some("True") => return Ok(Some(())),
                Ok(node) => last = node["status"]["conditions"].to_string(),
                Err(error) => last = error.to_string(),
            }
            Ok(None)
        });
        ready.map_err(|failure| {
            Failure::Unexpected(format!("node {} is not ready{failure}: {last}", self.name))
        })
    }

    fn make_namespace(&self) -> Result<(), Failure> {
        let name = &self.namespace;
        self.kubectl()
            .apply(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }))?;
        // Pods are refused before their service account has its token.
        eventually(self.context.patiently(20), "the namespace gets no service account", || {
            let account = self.get(&["serviceaccounts", "--field-selector", "metadata.name=default"])?;
            Ok(account["items"][0]["secrets"].get(0).is_some().then_some(()))
        })
    }
}

/// The status of a condition of a pod or node.
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == kind)?["status"].as_str()
}

/// A control plane that only this test uses.
///
/// # Errors
/// It does not start.
pub fn own_control_plane(context: &Context, audit: bool) -> Result<ControlPlane, Failure> {
    let folder = context.temp.join("cluster");
    let options = ControlPlaneOptions { folder, timeout: context.patiently(90), port: None, audit };
    Ok(ControlPlane::start(&options)?)
}

/// Fails unless the pod's only container has run without an end since it was started.
pub fn ensure_no_restart(pod: &Value) -> Result<(), Failure> {
    let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
    ensure!(restarts == 0, "the container was restarted: {}", pod["status"]);
    Ok(())
}
