//! What runs the pods of a node: nodewarden, or the real kubelet.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use super::fixture::CERTIFICATES;
use super::options::NodeOptions;
use crate::e2e::hierarchy::fixture::{Driver, HierarchyFixture};
use crate::fixture::{Agent, Cluster, Kubelet, KubeletOptions, NodeSettings, TestRoot, unmount_below};
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
    /// What the environment says, nodewarden by default.
    pub fn of_environment() -> Self {
        let is_kubelet = std::env::var_os(NODE).is_some_and(|node| node == "kubelet");
        if is_kubelet { Self::Kubelet } else { Self::Nodewarden }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Nodewarden => "nodewarden",
            Self::Kubelet => "kubelet",
        }
    }
}

/// A node. The fields are dropped in this order: the agent, then what it uses.
pub enum Node<'c> {
    Nodewarden {
        agent: Option<Agent>,
        _volumes: Volumes,
        managed: Box<HierarchyFixture<'c>>,
        context: &'c Context,
        /// The one that had the node before; it removes its files when it is dropped.
        before: Option<Kubelet>,
    },
    Kubelet {
        kubelet: Kubelet,
        context: &'c Context,
        /// The agent that can take the node over, which has the pods' cgroup.
        next: Option<Box<HierarchyFixture<'c>>>,
        _root: Option<TestRoot>,
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
        port: u16,
        options: &NodeOptions,
    ) -> Result<Self, Failure> {
        let authority = cluster.authority();
        let settings = NodeSettings { authority: &authority, port, read_only_port: 0 };
        let kubeconfig = options.kubeconfig.clone().map_or_else(|| cluster.node(name), Ok)?;
        let kubelet = |cgroup_root: &str| {
            let manifests = context.temp.join("manifests");
            let options = KubeletOptions {
                folder: context.temp.join("k"),
                kubeconfig: kubeconfig.clone(),
                node: name.to_owned(),
                runtime: runtime.to_owned(),
                settings: settings.kubelet(cgroup_root, &manifests) + &options.lines,
                manifests,
            };
            Kubelet::start(options, context.problems())
        };
        let managed = |logs: &Path, section: &str| -> Result<_, Failure> {
            let logs = format!("podLogsDir: {}\nhealthzPort: 0\n", logs.display());
            let lines = logs + &settings.lines() + &options.lines;
            let certificates = context.temp.join(CERTIFICATES);
            let mut arguments = vec!["--kubeconfig".to_owned(), kubeconfig.to_string_lossy().into_owned()];
            arguments.extend(["--hostname-override".to_owned(), name.to_owned()]);
            arguments.extend(["--cert-dir".to_owned(), certificates.to_string_lossy().into_owned()]);
            arguments.extend(options.arguments.iter().cloned());
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let managed = HierarchyFixture::new(context, Driver::Cgroupfs, 60, &lines)?;
            let managed = managed.with_runtime(runtime).with_section(section).with_arguments(&arguments);
            Ok(managed.with_remote_http(options.remote_http))
        };
        if options.kind()? == NodeKind::Kubelet {
            let root = TestRoot::of_kubelet(context)?;
            let kubelet = kubelet(root.group().path())?;
            return Ok(Self::Kubelet { kubelet, context, next: None, _root: Some(root) });
        }
        if options.first_a_kubelet {
            let section = format!("devices:\n  kubeletDir: {}\n", context.temp.join("k/root").display());
            let managed = managed(Path::new("/var/log/pods"), &section)?;
            let root = managed.options().manage.as_ref().map_or("/", |manage| manage.root.as_str());
            let kubelet = kubelet(root)?;
            return Ok(Self::Kubelet { kubelet, context, next: Some(Box::new(managed)), _root: None });
        }
        let managed = managed(&context.temp.join("pod-logs"), &options.section)?;
        Self::nodewarden(context, Box::new(managed), None)
    }

    fn nodewarden(
        context: &'c Context,
        managed: Box<HierarchyFixture<'c>>,
        before: Option<Kubelet>,
    ) -> Result<Self, Failure> {
        // The kubelet's directory of the agent, or a directory above it.
        let volumes = Volumes { folder: context.temp.join("k"), problems: context.problems() };
        let agent = Some(managed.start()?);
        Ok(Self::Nodewarden { agent, _volumes: volumes, managed, context, before })
    }

    /// Ends the kubelet, and starts nodewarden in its place.
    ///
    /// # Errors
    /// The agent cannot be started, or there is none for this.
    pub fn take_over(self) -> Result<Self, Failure> {
        let Self::Kubelet { mut kubelet, context, next: Some(managed), .. } = self else {
            return Err(Failure::Unexpected("no kubelet runs the node".into()));
        };
        kubelet.end();
        Self::nodewarden(context, managed, Some(kubelet))
    }

    /// Ends nodewarden, and starts the kubelet that had the node before it.
    ///
    /// # Errors
    /// The kubelet cannot be started, or there was none.
    pub fn give_back(self) -> Result<Self, Failure> {
        let Self::Nodewarden { agent, managed, context, before: Some(mut kubelet), .. } = self else {
            return Err(Failure::Unexpected("no kubelet had the node".into()));
        };
        drop(agent);
        kubelet.start_again()?;
        Ok(Self::Kubelet { kubelet, context, next: Some(managed), _root: None })
    }

    /// The process id of nodewarden or the kubelet, if it runs.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Nodewarden { agent, .. } => agent.as_ref().map(Agent::pid),
            Self::Kubelet { kubelet, .. } => kubelet.pid(),
        }
    }

    /// Why the kubelet has ended by itself, if it has.
    pub fn fatal(&self) -> Option<String> {
        match self {
            Self::Kubelet { kubelet, .. } => kubelet.fatal(),
            Self::Nodewarden { .. } => None,
        }
    }

    /// The last lines of the kubelet's log that contain `text`, at most `count`.
    pub fn kubelet_lines(&self, text: &str, count: usize) -> Vec<String> {
        match self {
            Self::Kubelet { kubelet, .. } => kubelet.last_lines(text, count),
            Self::Nodewarden { .. } => Vec::new(),
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

    /// Ends the kubelet and starts it again.
    ///
    /// # Errors
    /// The node is not a kubelet, or it cannot be started.
    pub fn restart_kubelet(&mut self) -> Result<(), Failure> {
        self.end_kubelet(Signal::SIGTERM)?;
        self.start_kubelet()
    }

    /// Ends the kubelet by SIGTERM or SIGKILL.
    ///
    /// # Errors
    /// The node is not a kubelet.
    pub fn end_kubelet(&mut self, signal: Signal) -> Result<(), Failure> {
        self.kubelet()?.end_by(signal);
        Ok(())
    }

    /// Starts the kubelet after [`Self::end_kubelet`].
    ///
    /// # Errors
    /// The node is not a kubelet, or it cannot be started.
    pub fn start_kubelet(&mut self) -> Result<(), Failure> {
        Ok(self.kubelet()?.start_again()?)
    }

    fn kubelet(&mut self) -> Result<&mut Kubelet, Failure> {
        match self {
            Self::Kubelet { kubelet, .. } => Ok(kubelet),
            Self::Nodewarden { .. } => Err(Failure::Unexpected("no kubelet runs the node".into())),
        }
    }

    /// Ends the kubelet and starts it again with settings that `change` makes of its old ones.
    ///
    /// # Errors
    /// The node is not a kubelet, or it cannot be started.
    pub fn restart_kubelet_with(&mut self, change: impl FnOnce(&str) -> String) -> Result<(), Failure> {
        if let Self::Kubelet { kubelet, .. } = self {
            kubelet.change_settings(change)?;
        }
        self.restart_kubelet()
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
