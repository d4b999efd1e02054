//! The node under test: nodewarden, or the real kubelet.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::ConformanceError;
use crate::fixture::{
    Cluster, FixedDirectories, Kubelet, KubeletOptions, NodeSettings, die_with_parent, unmount_below,
};
use crate::harness::Problems;

/// The names of both in files of results.
pub const NODEWARDEN: &str = "nodewarden";
/// See [`NODEWARDEN`].
pub const KUBELET: &str = "kubelet";
/// Tests read the node's statistics and metrics here.
const READ_ONLY_PORT: u16 = 10255;
const PORT: u16 = 10250;

/// Where the node finds things.
pub struct Place<'a> {
    pub directory: &'a Path,
    pub cluster: &'a Cluster,
    pub name: &'a str,
    pub runtime: &'a Path,
    pub cgroup_root: &'a str,
    pub problems: Problems,
}

/// A running node. Dropping it ends it.
pub enum Node {
    Kubelet(#[expect(dead_code, reason = "kept until it is dropped")] Kubelet),
    Nodewarden(#[expect(dead_code, reason = "kept until it is dropped")] Agent),
}

impl Node {
    /// # Errors
    /// It cannot be started.
    pub fn start(agent: Option<&Path>, place: &Place<'_>) -> Result<Self, ConformanceError> {
        let manifests = place.directory.join("manifests");
        fs::create_dir_all(&manifests).map_err(ConformanceError::file(&manifests))?;
        let authority = place.cluster.authority();
        let settings = NodeSettings { authority: &authority, port: PORT, read_only_port: READ_ONLY_PORT };
        let kubeconfig = place.cluster.node(place.name)?;
        let settings = settings.kubelet(place.cgroup_root, &manifests);
        let Some(agent) = agent else {
            let options = KubeletOptions {
                folder: place.directory.join("k"),
                kubeconfig,
                node: place.name.to_owned(),
                runtime: place.runtime.to_owned(),
                manifests,
                settings,
            };
            return Ok(Self::Kubelet(Kubelet::start(options, place.problems.clone())?));
        };
        Ok(Self::Nodewarden(Agent::start(agent, place, &kubeconfig, &settings)?))
    }
}

/// nodewarden as a process, with the directories that the suite looks into.
pub struct Agent {
    child: Child,
    state: std::path::PathBuf,
    problems: Problems,
    /// Dropped after the agent has ended.
    _directories: FixedDirectories,
}

impl Agent {
    fn start(
        program: &Path,
        place: &Place<'_>,
        kubeconfig: &Path,
        settings: &str,
    ) -> Result<Self, ConformanceError> {
        let directory = place.directory;
        let state = directory.join("state");
        fs::create_dir_all(&state).map_err(ConformanceError::file(&state))?;
        let config = directory.join("nodewarden.yaml");
        let text = format!(
            "{settings}\
             podLogsDir: /var/log/pods\n\
             nodewarden:\n\
             \x20 mode: manage\n\
             \x20 socket: {socket}\n\
             \x20 httpAddress: 127.0.0.1:0\n\
             \x20 stateDir: {state}\n\
             \x20 runtimeEndpoint: unix://{runtime}\n\
             \x20 nodeName: {name}\n\
             \x20 devices: {{kubeletDir: {kubelet}}}\n",
            socket = directory.join("n.sock").display(),
            state = state.display(),
            runtime = place.runtime.display(),
            name = place.name,
            kubelet = directory.join("kd").display(),
        );
        fs::write(&config, text).map_err(ConformanceError::file(&config))?;
        let log = directory.join("nodewarden.log");
        let output = File::create(&log).map_err(ConformanceError::file(&log))?;
        let errors = output.try_clone().map_err(ConformanceError::file(&log))?;
        let mut command = Command::new(program);
        command.args(["agent", "--config"]).arg(&config).arg("--kubeconfig").arg(kubeconfig);
        command.arg("--hostname-override").arg(place.name);
        command.stdin(Stdio::null()).stdout(output).stderr(errors).process_group(0);
        die_with_parent(&mut command);
        let directories = FixedDirectories::remember();
        let child = command.spawn().map_err(ConformanceError::file(program))?;
        Ok(Self { child, state, problems: place.problems.clone(), _directories: directories })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _gone = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM);
        let deadline = Instant::now() + Duration::from_secs(10);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _gone = self.child.kill();
        let _gone = self.child.wait();
        for path in unmount_below(&self.state) {
            self.problems.add(format!("{} is still mounted", path.display()));
        }
    }
}
