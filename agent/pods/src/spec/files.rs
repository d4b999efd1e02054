//! Files that must exist before a container is created: its log directory, its termination message, the pod's hosts
//! file, and `subPath`s of volumes.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::mounts::Mounts;
use super::{Host, SpecError, write_hosts};
use crate::volume;
use nodewarden_manifest::Pod;

/// Creates or recreates the files; a termination message that the container has written is kept.
pub(super) fn make(
    pod: &Pod,
    container: &str,
    ips: &[IpAddr],
    mounts: &Mounts,
    host: &Host,
) -> Result<(), SpecError> {
    let paths = host.paths(pod);
    directory(&paths.log_dir(container), 0o755)?;
    let log = &mounts.termination_log;
    if let Some(parent) = log.parent() {
        directory(parent, 0o750)?;
    }
    let mut open = fs::OpenOptions::new();
    open.create(true).append(true).mode(0o666).custom_flags(libc::O_NOFOLLOW);
    let file = open.open(log).map_err(fail("create", log))?;
    // Writable by every user, because the container may run as any.
    file.set_permissions(fs::Permissions::from_mode(0o666)).map_err(fail("chmod", log))?;
    forget_older(log);
    if mounts.hosts {
        write_hosts(pod, ips, &paths, host)?;
    }
    volume::write_downward(pod, &paths, host.node).map_err(|error| SpecError::Volume(Box::new(error)))?;
    for part in &mounts.sub_paths {
        volume::bind_sub_path(&part.root, &part.path, &part.target).map_err(|source| SpecError::SubPath {
            volume: part.volume.clone(),
            container: container.to_owned(),
            source: Box::new(source),
        })?;
    }
    Ok(())
}

/// Removes all termination messages of a container but the newest two: the last but one may not have been read yet.
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
