//! The agent's configuration for an interactive run.

use std::path::{Path, PathBuf};

/// The settings that differ from the defaults.
#[derive(Debug)]
pub struct Settings {
    pub socket: PathBuf,
    pub http: String,
    pub state: PathBuf,
    pub logs: PathBuf,
    pub manifests: PathBuf,
    /// Directory in which device plugins find the agent.
    pub kubelet: PathBuf,
    pub runtime: PathBuf,
    pub cgroup_root: String,
    /// Lines about the cluster that the machine is a node of; empty if it is none.
    pub node: String,
}

impl Settings {
    /// The text of the configuration file.
    pub fn yaml(&self) -> String {
        format!(
            "# Written by `cargo xtask run` at each start; pass --config to use a file of your own.\n\
             apiVersion: kubelet.config.k8s.io/v1beta1\n\
             kind: KubeletConfiguration\n\
             staticPodPath: {manifests}\n\
             cgroupRoot: {root}\n\
             cgroupDriver: cgroupfs\n\
             podLogsDir: {logs}\n\
             {swap}\
             # Low disk thresholds: the machine's disk may be rather full, which should not evict the example pods.\n\
             evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, \
             imagefs.available: 1%}}\n\
             {node}\
             nodewarden:\n\
             \x20 mode: manage\n\
             \x20 socket: {socket}\n\
             \x20 httpAddress: {http}\n\
             \x20 stateDir: {state}\n\
             \x20 runtimeEndpoint: {runtime}\n\
             \x20 nodeName: here\n\
             \x20 devices:\n\
             \x20   kubeletDir: {kubelet}\n",
            manifests = quoted(&self.manifests),
            root = self.cgroup_root,
            logs = quoted(&self.logs),
            // The lines about the cluster have it too.
            swap = if self.node.is_empty() { "failSwapOn: false\n" } else { "" },
            node = self.node,
            socket = quoted(&self.socket),
            http = self.http,
            state = quoted(&self.state),
            kubelet = quoted(&self.kubelet),
            runtime = quoted(Path::new(&format!("unix://{}", self.runtime.display()))),
        )
    }
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_accepts_the_configuration() {
        let temp = tempfile::tempdir().unwrap();
        let settings = Settings {
            socket: "/run/x.sock".into(),
            http: "127.0.0.1:10350".into(),
            state: "/w/it's/state".into(),
            logs: "/w/logs".into(),
            manifests: "/w/manifests".into(),
            kubelet: "/w/kubelet".into(),
            runtime: "/w/containerd.sock".into(),
            cgroup_root: "/nodewarden-run".into(),
            node: String::new(),
        };
        let path = temp.path().join("c.yaml");
        std::fs::write(&path, settings.yaml()).unwrap();
        let config = nodewarden_config::load(Some(&path), None, &Default::default()).unwrap();
        assert_eq!(config.state_dir, Path::new("/w/it's/state"));
        assert_eq!(config.mode, nodewarden_config::Mode::Manage);
        assert_eq!(config.pods.logs_dir, Path::new("/w/logs"));
        assert_eq!(config.devices.kubelet_dir, Path::new("/w/kubelet"));
        assert!(config.ignored.is_empty(), "{:?}", config.ignored);
    }
}
