//! What runs the pods of a node: nodewarden, or the real kubelet.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::e2e::hierarchy::fixture::{Driver, HierarchyFixture};
use crate::fixture::{
    Agent, Cluster, Kubelet, KubeletOptions, NodeSettings, TestRoot, free_port, unmount_below,
};
use crate::harness::{Context, Failure, Problems};

/// Environment variable: `kubelet` for the real kubelet in place of nodewarden.
const NODE: &str = "NODEWARDEN_NODE";

/// Who runs the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    Nodewarden,
    Kubelet,
}

impl NodeKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nodewarden => "nodewarden",
            Self::Kubelet => "kubelet",
        }
    }
}

/// What differs from one node to another.
#[derive(Debug, Clone, Copy)]
pub struct NodeOptions<'a> {
    pub kind: NodeKind,
    /// The end of its name.
    pub suffix: &'a str,
    /// Further lines of the kubelet's configuration, for both kinds.
    pub lines: &'a str,
    /// Lines of nodewarden's own section.
    pub section: &'a str,
}

impl NodeOptions<'_> {
    /// What the environment says, nodewarden by default.
    pub fn from_environment() -> Self {
        let is_kubelet = std::env::var_os(NODE).is_some_and(|node| node == "kubelet");
        let kind = if is_kubelet { NodeKind::Kubelet } else { NodeKind::Nodewarden };
        Self { kind, suffix: "", lines: "", section: "" }
    }
}

/// A node. The fields are dropped in this order: the agent, then what it uses.
pub enum Node<'c> {
    Nodewarden {
        agent: Option<Agent>,
        _volumes: Volumes,
        managed: Box<HierarchyFixture<'c>>,
        context: &'c Context,
    },
    Kubelet {
        kubelet: Kubelet,
        _root: TestRoot,
    },
}

/// The directory with pods' volumes. Dropping it unmounts those of pods that are still there.
pub struct Volumes {
    folder: PathBuf,
    problems: Problems,
}

impl Drop for Volumes {
    fn drop(&mut self) {
        for path in unmount_below(&self.folder) {
            self.problems.add(format!("{} is still mounted", path.display()));
        }
    }
}

impl<'c> Node<'c> {
    /// Starts it. It registers itself later.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(
        context: &'c Context,
        cluster: &Cluster,
        name: &str,
        runtime: &Path,
        options: &NodeOptions<'_>,
    ) -> Result<Self, Failure> {
        let port = || free_port().map_err(Failure::file("a free port"));
        let authority = cluster.authority();
        let settings = NodeSettings { authority: &authority, port: port()?, read_only_port: 0 };
        let kubeconfig = cluster.node(name)?;
        if options.kind == NodeKind::Kubelet {
            let root = TestRoot::new(context)?;
            let manifests = context.temp.join("manifests");
            let settings = settings.kubelet(root.group().path(), &manifests) + options.lines;
            let options = KubeletOptions {
                folder: context.temp.join("k"),
                kubeconfig,
                node: name.to_owned(),
                runtime: runtime.to_owned(),
                manifests,
                settings,
            };
            return Ok(Self::Kubelet { kubelet: Kubelet::start(options, context.problems())?, _root: root });
        }
        let logs = context.temp.join("pod-logs");
        let lines = format!("podLogsDir: {}\n{}{}", logs.display(), settings.lines(), options.lines);
        let arguments = ["--kubeconfig", &kubeconfig.to_string_lossy(), "--hostname-override", name];
        let managed = HierarchyFixture::new(context, Driver::Cgroupfs, 60, &lines)?
            .with_runtime(runtime)
            .with_section(options.section)
            .with_arguments(&arguments);
        let state = managed.options().state.clone().unwrap_or_else(|| context.temp.join("managed-state"));
        let volumes = Volumes { folder: state.join("pods"), problems: context.problems() };
        let agent = Some(managed.start()?);
        Ok(Self::Nodewarden { agent, _volumes: volumes, managed: Box::new(managed), context })
    }

    /// The process id of nodewarden or the kubelet, if it runs.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Nodewarden { agent, .. } => agent.as_ref().map(Agent::pid),
            Self::Kubelet { kubelet, .. } => kubelet.pid(),
        }
    }

    /// nodewarden.
    ///
    /// # Errors
    /// It does not run, or the node is a kubelet.
    pub fn agent(&self) -> Result<&Agent, Failure> {
        match self {
            Self::Nodewarden { agent: Some(agent), .. } => Ok(agent),
            Self::Nodewarden { .. } => Err(Failure::Unexpected("the agent does not run".into())),
            Self::Kubelet { .. } => Err(is_kubelet()),
        }
    }

    /// What nodewarden works on.
    ///
    /// # Errors
    /// The node is a kubelet.
    pub fn managed(&self) -> Result<&HierarchyFixture<'c>, Failure> {
        match self {
            Self::Nodewarden { managed, .. } => Ok(managed),
            Self::Kubelet { .. } => Err(is_kubelet()),
        }
    }

    /// Ends nodewarden by SIGTERM.
    ///
    /// # Errors
    /// The node is a kubelet.
    pub fn stop_agent(&mut self) -> Result<(), Failure> {
        let Self::Nodewarden { agent, .. } = self else { return Err(is_kubelet()) };
        // Dropping it sends SIGTERM, and records an exit status other than 0.
        *agent = None;
        Ok(())
    }

    /// Ends nodewarden by SIGKILL.
    ///
    /// # Errors
    /// The node is a kubelet, or it has ended before.
    pub fn kill_agent(&mut self) -> Result<(), Failure> {
        let Self::Nodewarden { agent, context, .. } = self else { return Err(is_kubelet()) };
        if let Some(mut agent) = agent.take() {
            agent.end(Signal::SIGKILL, context.patiently(20))?;
        }
        Ok(())
    }

    /// Starts nodewarden with the state of the one before.
    ///
    /// # Errors
    /// The node is a kubelet, or nodewarden does not start.
    pub fn start_agent(&mut self) -> Result<(), Failure> {
        let Self::Nodewarden { agent, managed, .. } = self else { return Err(is_kubelet()) };
        *agent = Some(managed.start()?);
        Ok(())
    }
}

fn is_kubelet() -> Failure {
    Failure::Skip("the node is a kubelet".into())
}
