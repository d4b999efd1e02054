//! Pods' directories when the directory that holds them has changed: with a cluster it is the kubelet's
//! `--root-dir`, without one the state directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nodewarden_config::Config;

/// A directory of a pod that runs cannot be brought to where the agent looks for it.
#[derive(Debug, thiserror::Error)]
#[error("rename {} to {}: {source}: the pod's volumes stay where they are, and its next container gets new ones", from.display(), to.display())]
pub struct BringError {
    from: PathBuf,
    to: PathBuf,
    source: io::Error,
}

/// Brings the directory of the pod `uid` to where the agent looks for it, if an agent with other settings has
/// made it. What containers have mounted of it stays mounted.
///
/// # Errors
/// It cannot be renamed, for one because it is on another file system.
pub fn bring(config: &Config, uid: &str) -> Result<(), BringError> {
    let pods = config.pods_dir();
    let others = [&config.state_dir, &config.devices.kubelet_dir].map(|root| root.join("pods"));
    others.iter().filter(|other| **other != pods).try_for_each(|other| rename(&other.join(uid), &pods, uid))
}

fn rename(from: &Path, pods: &Path, uid: &str) -> Result<(), BringError> {
    let to = pods.join(uid);
    if to.exists() || !from.is_dir() {
        return Ok(());
    }
    let renamed = fs::create_dir_all(pods).and_then(|()| fs::rename(from, &to));
    renamed.map_err(|source| BringError { from: from.to_owned(), to, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_brought_once() {
        let temp = tempfile::tempdir().unwrap();
        let (old, new) = (temp.path().join("state/pods"), temp.path().join("kubelet/pods"));
        rename(&old.join("u"), &new, "u").unwrap();
        assert!(!new.exists(), "there is nothing to bring");
        fs::create_dir_all(old.join("u/volumes")).unwrap();
        rename(&old.join("u"), &new, "u").unwrap();
        assert!(new.join("u/volumes").is_dir() && !old.join("u").exists());
        fs::create_dir_all(old.join("u")).unwrap();
        rename(&old.join("u"), &new, "u").unwrap();
        assert!(new.join("u/volumes").is_dir(), "one that is there is not replaced");
        fs::write(temp.path().join("file"), "").unwrap();
        let error = rename(&old.join("u"), &temp.path().join("file"), "u").unwrap_err();
        assert!(error.to_string().contains("state/pods/u"), "{error}");
    }
}
