//! What differs from one cluster of a test to another, and the control plane before there is a node.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fixture::ClusterFixture;
use crate::fixture::{Cluster, ControlPlane, ControlPlaneOptions};
use crate::harness::{Context, Failure};

/// Environment variable: the directory of a control plane that all tests share. Without it each test starts its own.
pub const SHARED: &str = "NODEWARDEN_CLUSTER";

/// How a node differs from the usual one. With any of it the node cannot be a kubelet.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// In place of a kubeconfig with a certificate of the node.
    pub kubeconfig: Option<PathBuf>,
    /// Further lines of the configuration.
    pub lines: String,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// The real kubelet runs the node until [`ClusterFixture::take_over`], with the directories and cgroups of nodewarden.
    pub first_a_kubelet: bool,
}

impl NodeOptions {
    /// Whether nothing differs.
    pub fn is_usual(&self) -> bool {
        let Self { kubeconfig, lines, arguments, first_a_kubelet } = self;
        kubeconfig.is_none() && lines.is_empty() && arguments.is_empty() && !first_a_kubelet
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

    /// With a control plane that only this test uses, and may stop. `signed_for`: see [`ControlPlaneOptions`].
    pub fn alone(context: &'c Context, signed_for: Option<Duration>) -> Result<Self, Failure> {
        let folder = context.temp.join("cluster");
        let options = ControlPlaneOptions { folder, timeout: context.patiently(90), port: None, signed_for };
        let control_plane = ControlPlane::start(&options)?;
        Ok(Self::of(context, control_plane.cluster().clone(), Some(control_plane)))
    }

    fn of(context: &'c Context, cluster: Cluster, control_plane: Option<ControlPlane>) -> Self {
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
        ClusterFixture::start_in(self, options)
    }
}
