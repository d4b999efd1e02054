//! Files that must exist before a container is created: its log directory, its termination message, the pod's
//! hosts file, and `subPath`s of volumes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::mounts::{Mounts, SubPath};
use super::{Host, SpecError, write_hosts};
use crate::objects::PodObjects;
use crate::volume::{self, HeldPath, VolumeError};
use nodewarden_manifest::Pod;

/// What must exist before a container is created. First [`Self::hold_host_paths`], then [`Self::make`].
#[derive(Debug)]
pub struct ContainerFiles {
    container: String,
    /// The pod's addresses, for its hosts file.
    ips: Vec<IpAddr>,
    mounts: Mounts,
    /// Open `subPath`s, by their place in the list of `mounts`.
    held: BTreeMap<usize, HeldPath>,
}

impl ContainerFiles {
    pub(super) fn new(container: &str, ips: &[IpAddr], mounts: Mounts) -> Self {
        Self { container: container.to_owned(), ips: ips.to_owned(), mounts, held: BTreeMap::new() }
    }

    /// Opens the `subPath`s of `hostPath` volumes, whose file systems may be ones that never answer.
    ///
    /// # Errors
    /// A path cannot be opened, or its file system does not answer within 10 s.
    pub async fn hold_host_paths(&mut self) -> Result<(), SpecError> {
        for (at, part) in self.mounts.sub_paths.iter().enumerate().filter(|(_, part)| part.foreign) {
            let (root, path) = (part.root.clone(), part.path.clone());
            let held =
                volume::on_host_paths(vec![part.root.clone()], move || volume::hold(&root, &path)).await;
            // None: a panic, which is a fault of the agent; the path is opened when it is bound.
            if let Some(held) = held.map_err(|error| self.failed(part, error))? {
                self.held.insert(at, held.map_err(|error| self.failed(part, error))?);
            }
        }
        Ok(())
    }

    /// Creates or recreates the files; a termination message that the container has written is kept. Blocks.
    /// Returns the volumes that keep their files because what they name cannot be had.
    ///
    /// # Errors
    /// A file cannot be created.
    pub fn make(&self, pod: &Pod, host: &Host, objects: &PodObjects) -> Result<Vec<VolumeError>, SpecError> {
        let paths = host.paths(pod);
        directory(&paths.log_dir(&self.container), 0o755)?;
        let log = &self.mounts.termination_log;
        if let Some(parent) = log.parent() {
            directory(parent, 0o750)?;
        }
        let mut open = fs::OpenOptions::new();
        open.create(true).append(true).mode(0o666).custom_flags(libc::O_NOFOLLOW);
        let file = open.open(log).map_err(fail("create", log))?;
        // Writable by every user, because the container may run as any.
        file.set_permissions(fs::Permissions::from_mode(0o666)).map_err(fail("chmod", log))?;
        forget_older(log);
        if self.mounts.hosts {
            write_hosts(pod, &self.ips, &paths, host)?;
        }
        let written = volume::write_files(pod, &paths, host.node, objects);
        let written = written.map_err(|error| SpecError::Volume(Box::new(error)))?;
        for (at, part) in self.mounts.sub_paths.iter().enumerate() {
            let bound = match self.held.get(&at) {
                Some(held) => volume::bind(held, &part.target),
                None => {
                    volume::hold(&part.root, &part.path).and_then(|held| volume::bind(&held, &part.target))
                }
            };
            bound.map_err(|error| self.failed(part, error))?;
        }
        Ok(written.kept)
    }

    fn failed(&self, part: &SubPath, source: VolumeError) -> SpecError {
        SpecError::SubPath {
            volume: part.volume.clone(),
            container: self.container.clone(),
            source: Box::new(source),
        }
    }
}

/// Removes all termination messages of a container but the newest two: the last but one may not have been
/// read yet.
fn forget_older(newest: &Path) {
    let attempt = |path: &Path| path.file_name()?.to_str()?.parse::<u32>().ok();
    let (Some(directory), Some(newest)) = (newest.parent(), attempt(newest)) else { return };
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if attempt(&path).is_some_and(|old| old + 1 < newest) {
            // A file that cannot be removed now is removed with the pod's directory.
            let _ = fs::remove_file(path);
        }
    }
}

fn directory(path: &Path, mode: u32) -> Result<(), SpecError> {
    fs::DirBuilder::new().recursive(true).mode(mode).create(path).map_err(fail("create", path))
}

fn fail(call: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SpecError {
    move |source| SpecError::File { call, path: path.to_owned(), source }
}
