//! What differs from one cluster of a test to another, and the control plane before there is a node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fixture::ClusterFixture;
use super::node::NodeKind;
use crate::fixture::{Cluster, ControlPlane, ControlPlaneOptions, NodeGone};
use crate::harness::{Context, Failure};

/// Environment variable: the directory of a control plane that all tests share. Without it each test starts
/// its own.
pub const SHARED: &str = "NODEWARDEN_CLUSTER";

/// How a node differs from the usual one.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// Who runs the pods; what the environment says if `None`.
    pub kind: Option<NodeKind>,
    /// The end of its name.
    pub suffix: String,
    /// In place of a kubeconfig with a certificate of the node.
    pub kubeconfig: Option<PathBuf>,
    /// Further lines of the kubelet's configuration.
    pub lines: String,
    /// Lines of nodewarden's own section.
    pub section: String,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// Whether other machines reach the agent's own HTTP.
    pub remote_http: bool,
    /// The real kubelet runs the node until [`ClusterFixture::take_over`], with the directories and cgroups
    /// of nodewarden.
    pub first_a_kubelet: bool,
}

impl NodeOptions {
    /// Who runs the pods.
    ///
    /// # Errors
    /// [`Failure::Skip`] if the environment says a kubelet, and the options are nodewarden's.
    pub fn kind(&self) -> Result<NodeKind, Failure> {
        let Self { kubeconfig, lines, section, arguments, remote_http, first_a_kubelet, .. } = self;
        let is_usual = kubeconfig.is_none()
            && lines.is_empty()
            && section.is_empty()
            && arguments.is_empty()
            && !remote_http
            && !first_a_kubelet;
        match self.kind.unwrap_or_else(NodeKind::of_environment) {
            NodeKind::Kubelet if self.kind.is_none() && !is_usual => {
                Err(Failure::Skip("the node is a kubelet".into()))
            }
            kind => Ok(kind),
        }
    }
}

/// A cluster without the test's node.
pub struct Prepared<'c> {
    pub(super) context: &'c Context,
    pub(super) name: String,
    pub(super) cluster: Cluster,
    pub(super) control_plane: Option<ControlPlane>,
}

impl<'c> Prepared<'c> {
    /// With a control plane that tests may share.
    pub fn new(context: &'c Context) -> Result<Self, Failure> {
        match std::env::var_os(SHARED) {
            Some(folder) => Ok(Self::of(context, Cluster::open(Path::new(&folder))?, None)),
            None => Self::alone(context, None),
        }
    }

    /// With a control plane that only this test uses, and may stop. `signed_for`: see
    /// [`ControlPlaneOptions`].
    pub fn alone(context: &'c Context, signed_for: Option<Duration>) -> Result<Self, Failure> {
        let control_plane = own_control_plane(context, signed_for, false)?;
        Ok(Self::of(context, control_plane.cluster().clone(), Some(control_plane)))
    }

    /// With a control plane that only this test uses, and that moves the pods of a node that is gone so soon.
    pub fn that_moves_pods(context: &'c Context, node_gone: NodeGone) -> Result<Self, Failure> {
        let control_plane = ControlPlane::start(&ControlPlaneOptions {
            folder: context.temp.join("cluster"),
            timeout: context.patiently(90),
            port: None,
            signed_for: None,
            audit: false,
            node_gone: Some(node_gone),
        })?;
        Ok(Self::of(context, control_plane.cluster().clone(), Some(control_plane)))
    }

    /// In this cluster, of which `control_plane` is the test's own.
    pub fn of(context: &'c Context, cluster: Cluster, control_plane: Option<ControlPlane>) -> Self {
        let name = format!("n{}-{}", context.runner(), context.name.replace('_', "-"));
        Self { context, name, cluster, control_plane }
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The name that the node will have.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts the node, and waits until it is ready.
    pub fn start(self, options: NodeOptions) -> Result<ClusterFixture<'c>, Failure> {
        ClusterFixture::start_in(self, &options)
    }
}

/// A control plane that only this test uses. `signed_for`, `audit`: see [`ControlPlaneOptions`].
///
/// # Errors
/// It does not start.
pub fn own_control_plane(
    context: &Context,
    signed_for: Option<Duration>,
    audit: bool,
) -> Result<ControlPlane, Failure> {
    let folder = context.temp.join("cluster");
    let timeout = context.patiently(90);
    let options = ControlPlaneOptions { folder, timeout, port: None, signed_for, audit, node_gone: None };
    Ok(ControlPlane::start(&options)?)
}
