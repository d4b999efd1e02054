//! Prepares the directory of plugins' sockets at the start.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

use tracing::warn;

use super::PluginError;

/// Creates the directory (mode 0750, as the kubelet does) if it is missing.
pub fn make(dir: &Path) -> Result<(), PluginError> {
    DirBuilder::new().recursive(true).mode(0o750).create(dir).map_err(PluginError::at("mkdir", dir))
}

/// Removes every socket in the directory, and nothing else (`CleanupPluginDirectory`); also those of running
/// plugins, which create theirs again when it is removed. Returns the removed paths.
pub fn sweep(dir: &Path) -> Result<Vec<PathBuf>, PluginError> {
    let mut removed = Vec::new();
    for entry in fs::read_dir(dir).map_err(PluginError::at("readdir", dir))? {
        let entry = entry.map_err(PluginError::at("readdir", dir))?;
        // Links are not followed: what they point to is not in this directory.
        if !entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            continue;
        }
        match fs::remove_file(entry.path()) {
            Ok(()) => removed.push(entry.path()),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => warn!("{}", PluginError::at("unlink", &entry.path())(e)),
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_sockets_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for file in ["kubelet_internal_checkpoint", "DEPRECATION", "kubelet.sock.lock"] {
            fs::write(path(file), "precious").unwrap();
        }
        fs::create_dir(path("sub")).unwrap();
        for socket in ["kubelet.sock", "gpu.sock", "sub/inner.sock"] {
            drop(UnixListener::bind(path(socket)).unwrap());
        }
        let _alive = UnixListener::bind(path("alive.sock")).unwrap();
        std::os::unix::fs::symlink(path("sub/inner.sock"), path("link.sock")).unwrap();
        let mut removed = sweep(dir.path()).unwrap();
        removed.sort();
        assert_eq!(removed, [path("alive.sock"), path("gpu.sock"), path("kubelet.sock")]);
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            ["DEPRECATION", "kubelet.sock.lock", "kubelet_internal_checkpoint", "link.sock", "sub"]
        );
        assert!(path("sub/inner.sock").exists());
    }
}
