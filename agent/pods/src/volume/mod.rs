//! A pod's volumes: `emptyDir`, `hostPath`, claims of such paths, and files that the agent writes
//! (`downwardAPI`, `configMap`, `secret`, `projected`). Everything is created below the pod's directory and
//! removed by `clean`.
//!
//! Mounts are created in the agent's mount namespace, which must be that of the runtime.

mod atomic;
mod claims;
mod clean;
mod empty_dir;
mod error;
mod files;
mod foreign;
mod host_path;
mod mount_table;
mod ownership;
mod payload;
mod project;
mod sub_path;

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

pub use claims::{Shared, link_claim, unlinked_claims};
pub use clean::{clean, remove};
pub use error::{HostPathFault, VolumeError};
pub use files::{Written, has_files, write_files};
pub use foreign::{check_host_paths, host_paths, on_host_paths};
pub use project::volume_project;
pub(crate) use sub_path::{HeldPath, bind, hold};

use crate::log_owner;
use crate::objects::PodObjects;
use crate::paths::PodPaths;
use nodewarden_manifest::Pod;
use nodewarden_manifest::volume_source::Source;
use nodewarden_qos::Node;

/// Creates missing directories and volumes of the pod below its own directory: directories and in-memory file
/// systems of `emptyDir`, and the files of volumes whose content the agent writes. The pod's logs are noted
/// as those of `owner` (the value of the label [`OWNER`](crate::spec::OWNER)). Called before the pod's
/// sandbox is created, together with [`check_host_paths`] and [`link_claim`]; may be called again.
///
/// # Errors
/// A volume could not be created or does not match the manifest; the error names the volume.
pub fn prepare(
    pod: &Pod,
    paths: &PodPaths,
    node: Node<'_>,
    owner: &str,
    objects: &PodObjects,
) -> Result<(), VolumeError> {
    directory(&paths.pod_dir, 0o750)?;
    directory(&paths.volumes(), 0o750)?;
    directory(&paths.logs, 0o755)?;
    log_owner::mark(&paths.logs, owner).map_err(VolumeError::file("note the owner in", &paths.logs))?;
    for volume in pod.spec().volumes.iter().flatten() {
        let made = match Source::of(volume) {
            Some(Source::EmptyDir(asked)) => {
                let wanted = empty_dir::Wanted::of(asked, pod, node);
                wanted.and_then(|wanted| empty_dir::make(&paths.empty_dir(&volume.name), &wanted))
            }
            // Not below the pod's directory, see `check_host_paths` and `link_claim`.
            Some(Source::HostPath(_) | Source::Claim(_) | Source::Ephemeral(_)) => Ok(()),
            // Written below.
            Some(
                Source::DownwardApi(_) | Source::ConfigMap(_) | Source::Secret(_) | Source::Projected(_),
            ) => Ok(()),
            None => Err(VolumeError::Unsupported),
        };
        made.map_err(|error| error.of(&volume.name))?;
    }
    write_files(pod, paths, node, objects).map(drop)
}

/// The uids of the pods that have a directory below `pods_dir`; empty if that does not exist.
///
/// # Errors
/// The directory cannot be listed.
pub fn present(pods_dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(pods_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut uids = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(uid) = entry.file_name().into_string()
        {
            uids.push(uid);
        }
    }
    uids.sort();
    Ok(uids)
}

/// Whether a pod's directory still contains a volume or a `subPath` of one.
pub fn has_volumes(pod_dir: &Path) -> bool {
    let below = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    below(&pod_dir.join("volumes")).any(|plugin| below(&plugin).next().is_some())
        || below(&pod_dir.join("volume-subpaths")).next().is_some()
}

fn directory(path: &Path, mode: u32) -> Result<(), VolumeError> {
    let made = fs::DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(VolumeError::file("create", path))
}

#[cfg(test)]
mod tests;
