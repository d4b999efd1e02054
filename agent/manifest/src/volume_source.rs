//! Kinds of volumes that need no cluster.

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource, Volume,
};

use super::Quantity;

/// Where a volume's content comes from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// None: the manifest names no source, which is this one (pkg/apis/core/v1 `SetDefaults_Volume`).
    EmptyDir(Option<&'a EmptyDirVolumeSource>),
    HostPath(&'a HostPathVolumeSource),
    DownwardApi(&'a DownwardAPIVolumeSource),
}

impl<'a> Source<'a> {
    /// None for every other kind.
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

    /// Whether no container may write it.
    pub fn is_read_only(self) -> bool {
        matches!(self, Self::DownwardApi(_))
    }

    /// Whether it is made for the pod, who then owns it (the kubelet's attribute `Managed`).
    pub fn is_managed(self) -> bool {
        !matches!(self, Self::HostPath(_))
    }
}

/// `emptyDir.medium`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    Disk,
    Memory,
    /// Bytes of a page; none is the only size that the containers use.
    HugePages(Option<u64>),
}

impl Medium {
    /// None for one that Kubernetes does not know.
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

/// Types that the API server takes.
pub const HOST_PATH_TYPES: [&str; 8] =
    ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];

fn bare(name: &str) -> Volume {
    Volume { name: name.to_owned(), ..Volume::default() }
}
