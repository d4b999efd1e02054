//! `emptyDir` volumes: an empty directory on disk, in memory or in huge pages (kubelet pkg/volume/emptydir).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;

use k8s_openapi::api::core::v1::EmptyDirVolumeSource;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};

use super::{VolumeError, directory, mount_table, project};
use nodewarden_machine::cgroup::control::Bound;
use nodewarden_manifest::names::page_size;
use nodewarden_manifest::volume_source::Medium;
use nodewarden_manifest::{Pod, Quantity};
use nodewarden_qos as qos;
use nodewarden_qos::Node;
use nodewarden_qos::allocatable;

/// The volume to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    backing: Backing,
    /// `fsGroup`.
    group: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backing {
    Disk,
    /// Bytes.
    Memory {
        size: u64,
    },
    /// For files that the agent writes, which only it can make larger.
    Files {
        in_memory: bool,
    },
    HugePages {
        page: u64,
    },
}

impl Wanted {
    /// The directory of files that the agent writes.
    pub(super) fn of_files(in_memory: bool, group: Option<u32>) -> Self {
        Self { backing: Backing::Files { in_memory }, group }
    }

    pub(super) fn of(
        asked: Option<&EmptyDirVolumeSource>,
        pod: &Pod,
        node: Node<'_>,
    ) -> Result<Self, VolumeError> {
        let medium = asked.and_then(|asked| asked.medium.as_deref()).unwrap_or_default();
        let backing = match Medium::parse(medium).ok_or(VolumeError::Unsupported)? {
            Medium::Disk => Backing::Disk,
            Medium::Memory => Backing::Memory { size: memory_size(asked, pod, node) },
            Medium::HugePages(Some(page)) => Backing::HugePages { page },
            Medium::HugePages(None) => Backing::HugePages { page: only_page_size(pod)? },
        };
        let spec = pod.spec();
        let context = spec.security_context.as_ref();
        let group = context.and_then(|c| c.fs_group).and_then(|group| u32::try_from(group).ok());
        Ok(Self { backing, group })
    }
}

/// Size in bytes of a volume in memory: the minimum of `sizeLimit`, the pod's memory limit and the node's
/// allocatable memory (`calculateEmptyDirMemorySize`, KEP-1967).
fn memory_size(asked: Option<&EmptyDirVolumeSource>, pod: &Pod, node: Node<'_>) -> u64 {
    let allocatable = allocatable::allocatable(node.capacity, node.settings).memory_bytes;
    let of_pod = match qos::pod::limits(pod, node).memory_max {
        Some(Bound::At(bytes)) => Some(bytes),
        _ => None,
    };
    let own = asked.and_then(|asked| asked.size_limit.as_ref());
    let own = own.and_then(|text| Quantity::parse(text.0.trim()).ok());
    let own = own.and_then(|quantity| u64::try_from(quantity.value()).ok()).filter(|bytes| *bytes > 0);
    [of_pod, own].into_iter().flatten().fold(allocatable, u64::min)
}

/// The page size of the pod's huge pages; an error if there are several (`getPageSizeMountOption`).
fn only_page_size(pod: &Pod) -> Result<u64, VolumeError> {
    let containers = pod.containers.iter().chain(&pod.init_containers);
    let names = containers.flat_map(|c| c.resources.requests.keys());
    let sizes = names.filter_map(|name| u64::try_from(page_size(name)?.value()).ok());
    match sizes.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>()[..] {
        [size] => Ok(size),
        _ => Err(VolumeError::PageSize),
    }
}

/// Creates the volume unless it exists. Mode and group are set when the directory is created; later changes
/// by a container are kept.
pub(super) fn make(dir: &Path, wanted: &Wanted) -> Result<(), VolumeError> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(VolumeError::Unsupported);
    };
    directory(parent, 0o750)?;
    if fs::symlink_metadata(dir).is_err() {
        // No volume has such a name: names begin with a letter or a digit.
        let new = parent.join(format!(".{}.new", name.to_string_lossy()));
        let _ = fs::remove_dir(&new);
        fs::create_dir(&new).map_err(VolumeError::file("create", &new))?;
        if let Some(group) = wanted.group {
            lchown(&new, None, Some(group)).map_err(VolumeError::file("chown", &new))?;
        }
        let mode = fs::Permissions::from_mode(with_group(0o777, wanted.group));
        fs::set_permissions(&new, mode).map_err(VolumeError::file("chmod", &new))?;
        fs::rename(&new, dir).map_err(VolumeError::file("rename", &new))?;
        if wanted.backing == Backing::Disk {
            project::assign(dir);
        }
    }
    if matches!(wanted.backing, Backing::Disk | Backing::Files { in_memory: false }) {
        return Ok(());
    }
    let real = fs::canonicalize(dir).map_err(VolumeError::file("resolve", dir))?;
    if mount_table::is_mounted(&real)? {
        return Ok(());
    }
    let owner = |mode: u32| {
        let group = wanted.group.map(|group| format!(",gid={group}")).unwrap_or_default();
        format!("mode={:o}{group}", with_group(mode, wanted.group))
    };
    match wanted.backing {
        Backing::Disk => Ok(()),
        Backing::Memory { size } => in_memory(&real, &format!("size={size},{}", owner(0o1777))),
        Backing::Files { .. } => in_memory(&real, &owner(0o1777)),
        Backing::HugePages { page } => {
            mounted("hugetlbfs", &real, &format!("pagesize={page},{}", owner(0o755)))
        }
    }
    .map_err(VolumeError::call("mount", dir))?;
    if matches!(wanted.backing, Backing::HugePages { .. }) && wanted.group.is_some() {
        // hugetlbfs does not accept the setgid bit in its mount options.
        let mode = fs::Permissions::from_mode(with_group(0o755, wanted.group));
        fs::set_permissions(&real, mode).map_err(VolumeError::file("chmod", dir))?;
    }
    Ok(())
}

/// Adds the mode bits for `fsGroup`: the group may read, write and enter, and owns new files
/// (`SetVolumeOwnership`).
fn with_group(mode: u32, group: Option<u32>) -> u32 {
    if group.is_some() { mode | 0o2770 } else { mode }
}

/// Without swap if the kernel supports it (Linux 6.4).
fn in_memory(dir: &Path, options: &str) -> nix::Result<()> {
    match mounted("tmpfs", dir, &format!("{options},noswap")) {
        Err(Errno::EINVAL) => mounted("tmpfs", dir, options),
        done => done,
    }
}

fn mounted(kind: &str, dir: &Path, options: &str) -> nix::Result<()> {
    mount(Some(kind), dir, Some(kind), MsFlags::empty(), Some(options))
}

#[cfg(test)]
mod tests;
