//! Kinds of volumes that need no cluster.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeSource, EmptyDirVolumeSource, HostPathVolumeSource, Volume,
};

use crate::container::PodPaths;

/// Where a volume's content comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source<'a> {
    /// None: the manifest names no source, which is this one (pkg/apis/core/v1 `SetDefaults_Volume`).
    EmptyDir(Option<&'a EmptyDirVolumeSource>),
    HostPath(&'a HostPathVolumeSource),
    DownwardApi(&'a DownwardAPIVolumeSource),
}

impl<'a> Source<'a> {
    /// None for every other kind.
    pub(crate) fn of(volume: &'a Volume) -> Option<Self> {
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

    /// Where it is on the node.
    pub(crate) fn path(self, name: &str, paths: &PodPaths) -> PathBuf {
        match self {
            Self::EmptyDir(_) => paths.empty_dir(name),
            Self::HostPath(asked) => PathBuf::from(&asked.path),
            Self::DownwardApi(_) => paths.downward_api(name),
        }
    }

    /// Whether no container may write it.
    pub(crate) fn is_read_only(self) -> bool {
        matches!(self, Self::DownwardApi(_))
    }

    /// Whether it is made for the pod, who then owns it (the kubelet's attribute `Managed`).
    pub(crate) fn is_managed(self) -> bool {
        !matches!(self, Self::HostPath(_))
    }
}

fn bare(name: &str) -> Volume {
    Volume { name: name.to_owned(), ..Volume::default() }
}
