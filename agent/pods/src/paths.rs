//! Paths of a pod's files: the kubelet's layout below the state directory and the log directory.

use std::path::{Path, PathBuf};

use nodewarden_manifest::Pod;
use nodewarden_manifest::volume_source::Source;

/// The directories of one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPaths {
    /// `<state>/pods/<uid>`.
    pub pod_dir: PathBuf,
    /// `<podLogsDir>/<namespace>_<name>_<uid>`.
    pub logs: PathBuf,
}

/// Path of an `emptyDir` volume of the pod whose directory is `pod_dir`.
pub fn empty_dir(pod_dir: &Path, volume: &str) -> PathBuf {
    pod_dir.join("volumes/kubernetes.io~empty-dir").join(volume)
}

impl PodPaths {
    /// The paths of `pod`; `pods_dir` is `<state>/pods`, `logs` the log directory of all pods.
    pub fn new(pods_dir: &Path, logs: &Path, pod: &Pod) -> Self {
        Self {
            pod_dir: pods_dir.join(&pod.uid),
            logs: logs.join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid)),
        }
    }

    /// `volumes/kubernetes.io~empty-dir/<volume>`.
    pub fn empty_dir(&self, volume: &str) -> PathBuf {
        empty_dir(&self.pod_dir, volume)
    }

    /// `volumes/kubernetes.io~downward-api/<volume>`.
    pub fn downward_api(&self, volume: &str) -> PathBuf {
        self.volume("kubernetes.io~downward-api", volume)
    }

    /// `volumes/<plugin>/<volume>`.
    fn volume(&self, plugin: &str, volume: &str) -> PathBuf {
        self.volumes().join(plugin).join(volume)
    }

    /// Path at which the `subPath` of a container's mount with this index is bound.
    pub fn sub_path(&self, volume: &str, container: &str, index: usize) -> PathBuf {
        self.pod_dir.join("volume-subpaths").join(volume).join(container).join(index.to_string())
    }

    /// Path of the content of the volume `name` on the node.
    pub fn source(&self, source: Source<'_>, name: &str) -> PathBuf {
        match source {
            Source::EmptyDir(_) => self.empty_dir(name),
            Source::HostPath(asked) => PathBuf::from(&asked.path),
            Source::DownwardApi(_) => self.downward_api(name),
            Source::ConfigMap(_) => self.volume("kubernetes.io~configmap", name),
            Source::Secret(_) => self.volume("kubernetes.io~secret", name),
            Source::Projected(_) => self.volume("kubernetes.io~projected", name),
            Source::Claim(_) | Source::Ephemeral(_) => self.volume("kubernetes.io~local-volume", name),
        }
    }

    /// `<pod_dir>/volumes`.
    pub fn volumes(&self) -> PathBuf {
        self.pod_dir.join("volumes")
    }

    /// The hosts file that containers see at `/etc/hosts`.
    pub fn hosts(&self) -> PathBuf {
        self.pod_dir.join("etc-hosts")
    }

    /// The file with the termination message of one run of a container.
    pub fn termination_log(&self, container: &str, attempt: u32) -> PathBuf {
        self.pod_dir.join("containers").join(container).join(format!("{attempt}"))
    }

    /// `<logs>/<container>`.
    pub fn log_dir(&self, container: &str) -> PathBuf {
        self.logs.join(container)
    }

    /// Path of the log of one run relative to the pod's log directory, as CRI expects it.
    pub fn log_name(container: &str, attempt: u32) -> String {
        format!("{container}/{attempt}.log")
    }
}
