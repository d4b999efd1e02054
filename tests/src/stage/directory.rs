//! Where the files of a run are.

use std::fs;
use std::path::{Path, PathBuf};

use super::StageError;
use crate::fixture::{take_down, unmount_below};

/// The longest path of a socket (unix(7)), without containerd's suffix for its second one.
const SOCKET_PATH: usize = 107 - ".ttrpc".len();

/// The folder of a run and what is in it.
#[derive(Debug)]
pub struct Home {
    folder: PathBuf,
}

impl Home {
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The examples are written anew at each start; what else is there is a person's.
    pub fn manifests(&self) -> PathBuf {
        self.folder.join("manifests")
    }

    /// Device plugins register below it.
    pub fn kubelet(&self) -> PathBuf {
        self.folder.join("kubelet")
    }

    pub fn configuration(&self) -> PathBuf {
        self.folder.join("nodewarden.yaml")
    }

    /// The agent's state: volumes and records of pods, and its journal.
    pub fn state(&self) -> PathBuf {
        self.folder.join("pods-state")
    }

    /// The pods' logs.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("pod-logs")
    }

    pub fn containerd_log(&self) -> PathBuf {
        self.folder.join("containerd.log")
    }

    /// Elsewhere if the path of its socket would be too long.
    pub fn containerd(&self) -> PathBuf {
        let usual = self.folder.join("containerd");
        let long = usual.join("containerd.sock").as_os_str().len() > SOCKET_PATH;
        if long { PathBuf::from("/run/nodewarden-run") } else { usual }
    }

    /// Removes what a run leaves: all but the manifests and the configuration. Containers still running of one that
    /// was killed end here too.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn clear(&self) -> Result<(), StageError> {
        take_down(&self.containerd());
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
    fn a_socket_has_room_for_its_path() {
        assert_eq!(Home::new(Path::new("/w/run")).containerd(), Path::new("/w/run/containerd"));
        let deep = PathBuf::from(format!("/{}", "deep/".repeat(30)));
        assert_eq!(Home::new(&deep).containerd(), Path::new("/run/nodewarden-run"));
    }
}
