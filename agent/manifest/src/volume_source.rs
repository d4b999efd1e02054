//! The kinds of volumes that this agent provides: those that need no cluster.

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource, Volume,
};

use super::Quantity;

/// The source of a volume's content.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// An empty directory of the pod. `None` if the manifest names no source, which means the same
    /// (pkg/apis/core/v1 `SetDefaults_Volume`).
    EmptyDir(Option<&'a EmptyDirVolumeSource>),
    /// A path of the node.
    HostPath(&'a HostPathVolumeSource),
    /// Files with fields of the pod.
    DownwardApi(&'a DownwardAPIVolumeSource),
}

impl<'a> Source<'a> {
    /// The source of a volume; `None` for every other kind.
    pub fn of(volume: &'a Volume) -> Option<Self> {
        if let Some(asked) = &volume.host_path {
            Some(Self::HostPath(asked))
        } else if let Some(asked) = &volume.downward_api {
            Some(Self::DownwardApi(asked))
        } else if volume.empty_dir.is_some() || *volume == bare(&volume.name) {
            Some(Self::EmptyDir(volume.empty_dir.as_ref()))
        } else {
            None
        }
    }

    /// Whether containers may only read it.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::DownwardApi(_))
    }

    /// Whether it is created for the pod and belongs to it (the kubelet's attribute `Managed`).
    pub fn is_managed(self) -> bool {
        !matches!(self, Self::HostPath(_))
    }
}

/// `emptyDir.medium`: where the content is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// On the file system of the node's pod directories.
    Disk,
    /// In a tmpfs.
    Memory,
    /// In huge pages of this size in bytes; `None` for the only size that the pod's containers request.
    HugePages(Option<u64>),
}

impl Medium {
    /// The medium of a manifest; `None` for one that Kubernetes does not know.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" => Some(Self::Disk),
            "Memory" => Some(Self::Memory),
            "HugePages" => Some(Self::HugePages(None)),
            _ => {
                let size = Quantity::parse(text.strip_prefix("HugePages-")?).ok()?;
                Some(Self::HugePages(u64::try_from(size.value()).ok().filter(|bytes| *bytes > 0)))
            }
        }
    }
}

/// The values of `hostPath.type` that the API server accepts.
pub(crate) const HOST_PATH_TYPES: [&str; 8] =
    ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];

fn bare(name: &str) -> Volume {
    Volume { name: name.to_owned(), ..Volume::default() }
}
