//! The kinds of volumes that this agent provides.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, DownwardAPIVolumeSource, EmptyDirVolumeSource, EphemeralVolumeSource,
    HostPathVolumeSource, PersistentVolumeClaimVolumeSource, PodSpec, ProjectedVolumeSource,
    SecretVolumeSource, Volume,
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
    /// Files with the keys of a config map.
    ConfigMap(&'a ConfigMapVolumeSource),
    /// Files with the keys of a secret.
    Secret(&'a SecretVolumeSource),
    /// Files from several sources.
    Projected(&'a ProjectedVolumeSource),
    /// What a claim is bound to.
    Claim(&'a PersistentVolumeClaimVolumeSource),
    /// What the claim that the API server's controllers make for the pod is bound to.
    Ephemeral(&'a EphemeralVolumeSource),
}

impl<'a> Source<'a> {
    /// The source of a volume; `None` for every other kind.
    pub fn of(volume: &'a Volume) -> Option<Self> {
        if let Some(asked) = &volume.host_path {
            Some(Self::HostPath(asked))
        } else if let Some(asked) = &volume.downward_api {
            Some(Self::DownwardApi(asked))
        } else if let Some(asked) = &volume.config_map {
            Some(Self::ConfigMap(asked))
        } else if let Some(asked) = &volume.secret {
            Some(Self::Secret(asked))
        } else if let Some(asked) = &volume.projected {
            Some(Self::Projected(asked))
        } else if let Some(asked) = &volume.persistent_volume_claim {
            Some(Self::Claim(asked))
        } else if let Some(asked) = &volume.ephemeral {
            Some(Self::Ephemeral(asked))
        } else if volume.empty_dir.is_some() || *volume == bare(&volume.name) {
            Some(Self::EmptyDir(volume.empty_dir.as_ref()))
        } else {
            None
        }
    }

    /// Whether containers may only read it.
    pub fn is_read_only(self) -> bool {
        match self {
            Self::DownwardApi(_) | Self::ConfigMap(_) | Self::Secret(_) | Self::Projected(_) => true,
            Self::Claim(asked) => asked.read_only.unwrap_or(false),
            Self::EmptyDir(_) | Self::HostPath(_) | Self::Ephemeral(_) => false,
        }
    }

    /// The claim of the pod's volume of this name; `None` for volumes of other kinds. A generic ephemeral
    /// volume's claim is named by the pod and the volume (component-helpers `VolumeClaimName`).
    pub fn claim(self, pod: &str, volume: &str) -> Option<String> {
        match self {
            Self::Claim(asked) => Some(asked.claim_name.clone()),
            Self::Ephemeral(_) => Some(format!("{pod}-{volume}")),
            _ => None,
        }
    }

    /// Whether its files belong to others than the pod: they may be on a file system that never
    /// answers.
    pub fn is_foreign(self) -> bool {
        matches!(self, Self::HostPath(_) | Self::Claim(_) | Self::Ephemeral(_))
    }

    /// Whether it is created for the pod and belongs to it (the kubelet's attribute `Managed`).
    pub fn is_managed(self) -> bool {
        !self.is_foreign()
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
/// An `emptyDir` volume of a pod: what is looked at far more often than a pod is started.
#[derive(Debug, Clone, PartialEq)]
pub struct EmptyDir {
    /// The volume's name in the manifest.
    pub name: Box<str>,
    /// Where it is; `None` for a medium that Kubernetes does not know.
    pub medium: Option<Medium>,
    /// `sizeLimit`, if it is a quantity.
    pub size_limit: Option<Quantity>,
}

impl EmptyDir {
    /// Those of a spec, in its order.
    pub(super) fn all(spec: &PodSpec) -> Box<[Self]> {
        let read = |volume: &Volume| {
            let Some(Source::EmptyDir(asked)) = Source::of(volume) else { return None };
            let size = asked.and_then(|asked| asked.size_limit.as_ref());
            Some(Self {
                name: volume.name.as_str().into(),
                medium: Medium::parse(asked.and_then(|asked| asked.medium.as_deref()).unwrap_or_default()),
                size_limit: size.and_then(|size| Quantity::parse(size.0.trim()).ok()),
            })
        };
        spec.volumes.iter().flatten().filter_map(read).collect()
    }
}
