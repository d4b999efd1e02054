//! Paths of cgroups below a mount.

use std::path::{Path, PathBuf};

/// The directory of cgroup `path` (`/`, `/a/b`) below `mount`.
pub fn join(mount: &Path, path: &str) -> PathBuf {
    match path.trim_start_matches('/') {
        "" => mount.to_owned(),
        below => mount.join(below),
    }
}
