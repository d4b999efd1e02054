//! `hostPath` volumes: checks the path against its type (kubelet pkg/volume/hostpath `checkTypeInternal`).

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use super::{HostPathFault, VolumeError};

/// Checks the path; with `…OrCreate`, creates it if it does not exist. Follows links, as the runtime does.
pub(super) fn check(path: &Path, kind: &str) -> Result<(), VolumeError> {
    let found = || match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.file_type())),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(VolumeError::file("stat", path)(error)),
    };
    type Is = fn(&FileType) -> bool;
    let (is, fault): (Is, _) = match kind {
        "" => return Ok(()),
        "DirectoryOrCreate" => {
            if found()?.is_none() {
                let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
                made.map_err(VolumeError::file("create", path))?;
            }
            (FileType::is_dir, HostPathFault::Directory)
        }
        "FileOrCreate" => {
            if found()?.is_none() {
                let mut open = fs::OpenOptions::new();
                let made = open.write(true).create_new(true).mode(0o644).open(path);
                made.map_err(VolumeError::file("create", path))?;
            }
            (FileType::is_file, HostPathFault::File)
        }
        "Directory" => (FileType::is_dir, HostPathFault::Directory),
        "File" => (FileType::is_file, HostPathFault::File),
        "Socket" => (FileType::is_socket, HostPathFault::Socket),
        "CharDevice" => (FileType::is_char_device, HostPathFault::CharDevice),
        "BlockDevice" => (FileType::is_block_device, HostPathFault::BlockDevice),
        _ => return Err(VolumeError::HostPath { path: path.to_owned(), fault: HostPathFault::Type }),
    };
    if found()?.as_ref().is_some_and(is) {
        Ok(())
    } else {
        Err(VolumeError::HostPath { path: path.to_owned(), fault })
    }
}

#[cfg(test)]
mod tests;
