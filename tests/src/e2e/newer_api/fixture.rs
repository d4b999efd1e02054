//! A node of the stand-in API server, with a real container runtime.

use std::path::Path;

use serde_json::{Value, json};

use crate::e2e::hierarchy::fixture::{Driver, HierarchyFixture};
use crate::e2e::pods::manifest::merged;
use crate::e2e::support::eventually;
use crate::fixture::{Agent, Containerd, StandInApi, free_port, unmount_below};
use crate::harness::{Context, Failure};

/// The node's name.
pub const NODE: &str = "stage";

/// The stand-in, the runtime and the agent. The fields are dropped in this order.
pub struct NewerApi<'c> {
    agent: Option<Agent>,
    managed: HierarchyFixture<'c>,
    _containerd: Containerd,
    api: StandInApi,
    context: &'c Context,
    /// Lines of the kubelet's configuration that every agent has.
    lines: String,
}

impl<'c> NewerApi<'c> {
    /// Starts an agent, and waits until its node is registered.
    pub fn start(context: &'c Context, kubelet: &str) -> Result<Self, Failure> {
        let api = StandInApi::start().map_err(Failure::file("the stand-in API server"))?;
        let containerd = Containerd::private(context)?;
        let lines = lines(context)?;
        let managed = managed(context, &api, containerd.socket(), &format!("{lines}{kubelet}"))?;
        let agent = Some(managed.start()?);
        wait_registered(context, &api)?;
        Ok(Self { agent, managed, _containerd: containerd, api, context, lines })
    }

    pub fn api(&self) -> &StandInApi {
        &self.api
    }

    /// Ends the agent and starts another one with its state and these lines of the kubelet's configuration.
    pub fn restart_with(&mut self, kubelet: &str) -> Result<(), Failure> {
        self.agent = None;
        self.managed.set_kubelet(&format!("{}{kubelet}", self.lines));
        self.agent = Some(self.managed.start()?);
        Ok(())
    }

    /// Creates a pod on the machine's network, with a grace period of a second.
    pub fn create(&self, name: &str, spec: Value) {
        let usual = json!({ "hostNetwork": true, "terminationGracePeriodSeconds": 1 });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": merged(usual, spec),
        });
        self.api.create_pod(NODE, pod);
    }

    /// Waits until `wanted` is true of a pod at the API server. The failure has its last status.
    pub fn wait(
        &self,
        name: &str,
        what: &str,
        seconds: u64,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, Failure> {
        let mut last = None;
        let found = eventually(self.context.patiently(seconds), "", || {
            last = self.api.pod(name);
            Ok(last.clone().filter(&wanted))
        });
        found.map_err(|_| {
            let seen = last.map_or_else(|| "not there".to_owned(), |pod| pod["status"].to_string());
            Failure::Unexpected(format!("pod {name} is not {what}: {seen}"))
        })
    }

    /// Waits until a pod is ready.
    pub fn wait_ready(&self, name: &str) -> Result<Value, Failure> {
        self.wait(name, "ready", 60, |pod| condition(pod, "Ready")["status"] == "True")
    }

    /// Deletes a pod, and waits until the agent has made the last delete.
    pub fn remove(&self, name: &str) -> Result<(), Failure> {
        self.api.delete_pod(name, 10);
        eventually(self.context.patiently(40), &format!("pod {name} is still there"), || {
            Ok(self.api.pod(name).is_none().then_some(()))
        })
    }
}

/// Lines of the kubelet's configuration for a node of the stand-in.
pub fn lines(context: &Context) -> Result<String, Failure> {
    let port = free_port().map_err(Failure::file("a free port"))?;
    Ok(format!(
        "podLogsDir: {}\nfailSwapOn: false\nhealthzPort: 0\nport: {port}\nnodeStatusUpdateFrequency: 1s\n\
         authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: false}}}}\n\
         authorization: {{mode: AlwaysAllow}}\n",
        context.temp.join("pod-logs").display(),
    ))
}

/// Agents of the node [`NODE`] of the stand-in, with these lines of the kubelet's configuration.
pub fn managed<'c>(
    context: &'c Context,
    api: &StandInApi,
    runtime: &Path,
    lines: &str,
) -> Result<HierarchyFixture<'c>, Failure> {
    let folder = context.temp.join("node");
    std::fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
    let kubeconfig = api.kubeconfig(&folder).map_err(Failure::file(&folder))?;
    let path = |path: &Path| path.display().to_string();
    let arguments = [
        "--kubeconfig".to_owned(),
        path(&kubeconfig),
        "--hostname-override".to_owned(),
        NODE.to_owned(),
        "--cert-dir".to_owned(),
        path(&folder.join("pki")),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let managed = HierarchyFixture::new(context, Driver::Cgroupfs, 60, lines)?;
    Ok(managed.with_runtime(runtime).with_arguments(&arguments))
}

/// Waits until the stand-in has the node.
pub fn wait_registered(context: &Context, api: &StandInApi) -> Result<(), Failure> {
    eventually(context.patiently(40), "the node is not registered", || {
        Ok(api.node(NODE).filter(|node| node["status"]["capacity"].is_object()).map(drop))
    })
}

impl Drop for NewerApi<'_> {
    fn drop(&mut self) {
        // It would mount volumes again.
        self.agent = None;
        for path in unmount_below(&self.context.temp.join("k")) {
            self.context.problems().add(format!("{} is still mounted", path.display()));
        }
    }
}

/// A condition of a pod; null if it has none of this type.
pub fn condition<'v>(pod: &'v Value, kind: &str) -> &'v Value {
    const NONE: &Value = &Value::Null;
    let mut all = pod["status"]["conditions"].as_array().into_iter().flatten();
    all.find(|own| own["type"] == kind).unwrap_or(NONE)
}

/// The status of a container, which may be an init container.
pub fn container<'v>(pod: &'v Value, name: &str) -> Result<&'v Value, Failure> {
    let of = |key: &str| pod["status"][key].as_array().into_iter().flatten();
    let mut all = of("initContainerStatuses").chain(of("containerStatuses"));
    all.find(|own| own["name"] == name)
        .ok_or_else(|| Failure::Unexpected(format!("no status of {name}: {}", pod["status"])))
}
