//! A node whose way to the API server is bad: see [`ApiProxy`]. A pod that runs before must not notice.

use std::net::SocketAddr;

use serde_json::Value;

use super::fixture::{ClusterFixture, condition, container_id, ensure_no_restart};
use super::manifest::{WAIT, pod};
use super::options::{NodeOptions, Prepared};
use crate::ensure_eq;
use crate::fixture::{ApiProxy, ProxyCertificates};
use crate::harness::{Context, Failure};

/// A node that reaches the API server through a proxy, and a pod `stays` that runs.
pub struct BadApi<'c> {
    pub fixture: ClusterFixture<'c>,
    pub proxy: ApiProxy,
    before: Value,
    ready_since: Value,
}

impl<'c> BadApi<'c> {
    /// Starts the node; the proxy only forwards yet.
    pub fn start(context: &'c Context) -> Result<Self, Failure> {
        let prepared = Prepared::new(context)?;
        let cluster = prepared.cluster().clone();
        let signer = cluster.signer()?;
        let user = format!("system:node:{}", prepared.name());
        let certificates = ProxyCertificates {
            server: &signer.server("proxy", &["localhost"], &[std::net::Ipv4Addr::LOCALHOST])?,
            client: &signer.client(&user, &["system:nodes"])?,
            authority: &cluster.authority(),
        };
        let upstream = cluster.server().strip_prefix("https://").and_then(|rest| rest.parse().ok());
        let upstream: SocketAddr = upstream
            .ok_or_else(|| Failure::Unexpected(format!("the API server is at {}", cluster.server())))?;
        let proxy = ApiProxy::start(upstream, &certificates).map_err(Failure::file("the proxy"))?;
        let kubeconfig = Some(cluster.node_through(prepared.name(), &proxy.server())?);
        let fixture = prepared.start(NodeOptions { kubeconfig, ..NodeOptions::default() })?;
        fixture.apply(&pod("stays", fixture.name(), WAIT))?;
        let before = fixture.wait_ready("stays")?;
        let ready_since = ready_since(&fixture)?;
        Ok(Self { fixture, proxy, before, ready_since })
    }

    /// Makes a pod, and waits until the API server shows that it is ready.
    pub fn run_pod(&self, name: &str) -> Result<Value, Failure> {
        self.fixture.apply(&pod(name, self.fixture.name(), WAIT))?;
        let ready = self.fixture.wait_ready(name)?;
        ensure_no_restart(&ready)?;
        Ok(ready)
    }

    /// Deletes a pod, and waits until it is gone.
    pub fn delete_pod(&self, name: &str) -> Result<(), Failure> {
        self.fixture.run(&["delete", "pod", name, "--wait=false"])?;
        self.fixture.wait_gone(name, 60)
    }

    /// Fails if the pod that ran before has noticed anything, or the node was not ready meanwhile.
    pub fn ensure_untouched(&self) -> Result<(), Failure> {
        let after = self.fixture.wait_ready("stays")?;
        ensure_no_restart(&after)?;
        ensure_eq!(container_id(&after), container_id(&self.before), "the container that ran all the time");
        ensure_eq!(ready_since(&self.fixture)?, self.ready_since, "since when the node is ready");
        let node = self.fixture.node()?;
        ensure_eq!(condition(&node, "Ready"), Some("True"), "Ready of the node");
        self.fixture.ensure_nothing_forbidden()
    }
}

fn ready_since(fixture: &ClusterFixture<'_>) -> Result<Value, Failure> {
    let node = fixture.node()?;
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|one| one["type"] == "Ready");
    Ok(ready.map(|ready| ready["lastTransitionTime"].clone()).unwrap_or_default())
}
