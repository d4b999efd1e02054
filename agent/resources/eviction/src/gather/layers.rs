//! Writable layers of containers, found by their mounts: the runtime's figures are as old as its last
//! collection (containerd's `stats_collect_period` is 10 s).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodewarden_proto::runtime::v1 as cri;

use crate::DiskUse;
use nodewarden_cri::Client;
use nodewarden_machine::mountinfo;

/// Disk use of writable layers as reported by the runtime, by container id.
pub type Layers = BTreeMap<String, DiskUse>;

/// How long a decision waits for the runtime's figures.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the runtime; `None` if it does not answer in time, which is logged.
pub async fn writable_layers(runtime: &Client) -> Option<Layers> {
    match tokio::time::timeout(PATIENCE, runtime.container_stats()).await {
        Err(_) => {
            tracing::warn!(
                "writable layers that are not overlays are not known: no answer within {PATIENCE:?}"
            );
            None
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "writable layers that are not overlays are not known");
            None
        }
        Ok(Ok(stats)) => {
            let of_one = |stats: cri::ContainerStats| {
                let layer = stats.writable_layer?;
                let number = |value: Option<cri::UInt64Value>| value.map_or(0, |value| value.value);
                let used = DiskUse { bytes: number(layer.used_bytes), inodes: number(layer.inodes_used) };
                Some((stats.attributes?.id, used))
            };
            Some(stats.into_iter().filter_map(of_one).collect())
        }
    }
}

/// The upper directory of the overlay that is the root of a container, found by the first process in its
/// cgroup directory `dir`. `None` if no process runs, its root is not an overlay, or the directory is not
/// visible from here.
pub fn upper_directory(dir: &Path) -> Option<PathBuf> {
    let procs = fs::read_to_string(dir.join("cgroup.procs")).ok()?;
    let pid: u32 = procs.lines().find_map(|line| line.trim().parse().ok().filter(|pid| *pid > 1))?;
    let table = fs::read(format!("/proc/{pid}/mountinfo")).ok()?;
    let upper = upper(&table)?;
    super::walk::is_directory(&upper).ok().filter(|is| *is).map(|_| upper)
}

/// `upperdir` of what is mounted last at `/`.
fn upper(table: &[u8]) -> Option<PathBuf> {
    let mut root = mountinfo::parse(table).rev().find(|mount| mount.mount_point == Path::new("/"))?;
    if root.fs_type != "overlay" {
        return None;
    }
    let upper = root.super_options.remove("upperdir")??;
    Some(PathBuf::from(mountinfo::unescape(&upper))).filter(|upper| upper.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_directory_of_the_root_is_found() {
        let table = b"1 0 0:2 / / rw - ext4 /dev/x rw\n\
            2 1 0:3 / / rw,relatime - overlay overlay rw,lowerdir=/l:/m,upperdir=/a\\040b/c\\054d/fs,workdir=/w\n\
            3 2 0:4 / /proc rw - proc proc rw\n";
        assert_eq!(upper(table), Some(PathBuf::from("/a b/c,d/fs")));
        for other in [
            &b"1 0 0:2 / / rw - ext4 /dev/x rw,upperdir=/a\n"[..],
            b"2 1 0:3 / / rw - overlay overlay ro,lowerdir=/l:/m\n",
            b"2 1 0:3 / / rw - overlay overlay rw,upperdir=a\n",
            b"2 1 0:3 / /x rw - overlay overlay rw,upperdir=/a\n",
            b"",
        ] {
            assert_eq!(upper(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
}
