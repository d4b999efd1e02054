//! The directory of a run and the paths below it.

use std::fs;
use std::path::{Path, PathBuf};

use super::StageError;
use crate::fixture::{end_leftover_containerd, unmount_below};

/// The longest path of a Unix socket (unix(7)), less the suffix that containerd appends for its second
/// socket.
const SOCKET_PATH: usize = 107 - ".ttrpc".len();

/// The directory of a run.
#[derive(Debug)]
pub struct RunDirectory {
    folder: PathBuf,
}

impl RunDirectory {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Manifests. The examples are written again at each start; other files here belong to the user.
    pub fn manifests(&self) -> PathBuf {
        self.folder.join("manifests")
    }

    /// Device plugins register below this directory.
    pub fn kubelet(&self) -> PathBuf {
        self.folder.join("kubelet")
    }

    pub fn configuration(&self) -> PathBuf {
        self.folder.join("nodewarden.yaml")
    }

    /// The agent's state: volumes and records of pods, and its event journal.
    pub fn state(&self) -> PathBuf {
        self.folder.join("pods-state")
    }

    /// The pods' logs.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("pod-logs")
    }

    /// The control plane's files.
    pub fn cluster(&self) -> PathBuf {
        self.folder.join("cluster")
    }

    pub fn containerd_log(&self) -> PathBuf {
        self.folder.join("containerd.log")
    }

    /// The container runtime's directory: below the run's directory, or `/run/nodewarden-run` if its socket's
    /// path would be too long.
    pub fn containerd(&self) -> PathBuf {
        let preferred = self.folder.join("containerd");
        let too_long = preferred.join("containerd.sock").as_os_str().len() > SOCKET_PATH;
        if too_long { PathBuf::from("/run/nodewarden-run") } else { preferred }
    }

    /// Removes everything of an earlier run except manifests and configuration. Containers that a killed run
    /// left running are ended.
    ///
    /// # Errors
    /// Something cannot be removed, or a file system stays mounted.
    pub fn clear(&self) -> Result<(), StageError> {
        end_leftover_containerd(&self.containerd());
        for folder in [self.containerd(), self.state(), self.logs()] {
            if let Some(mounted) = unmount_below(&folder).into_iter().next() {
                return Err(StageError::Mounted(mounted));
            }
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(StageError::file(&folder)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_directory_moves_the_socket_to_run() {
        assert_eq!(RunDirectory::new(Path::new("/w/run")).containerd(), Path::new("/w/run/containerd"));
        let deep = PathBuf::from(format!("/{}", "deep/".repeat(30)));
        assert_eq!(RunDirectory::new(&deep).containerd(), Path::new("/run/nodewarden-run"));
    }
}
