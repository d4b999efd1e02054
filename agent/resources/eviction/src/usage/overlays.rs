//! Directories of containers' writable layers, from the mounts that the runtime made.
//!
//! A container decides what is mounted in its own mount namespace: a process with a user namespace may make
//! an overlay with any `upperdir` its root. So only overlays in the machine's own table count. containerd
//! mounts a container's root at `…/<container id>/rootfs`. Other runtimes use a name of their own; there the
//! root of the container's first process says which of the machine's overlays it is, by the device number,
//! which a container cannot choose.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nodewarden_machine::mountinfo;

/// Mount tables of the machine, the first that can be read: process 1 where the agent sees it, else the
/// agent's own.
const TABLES: [&str; 2] = ["/proc/1/mountinfo", "/proc/self/mountinfo"];

/// An overlay that the machine has mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Overlay {
    mount_point: PathBuf,
    /// `major:minor`.
    device: String,
    upper: PathBuf,
}

/// The overlays in the machine's mount table at one moment.
#[derive(Debug, Default)]
pub(super) struct Overlays(Vec<Overlay>);

impl Overlays {
    /// Reads the machine's table.
    pub fn read() -> Self {
        let table = TABLES.iter().find_map(|path| fs::read(path).ok()).unwrap_or_default();
        Self::parse(&table)
    }

    fn parse(table: &[u8]) -> Self {
        let lines = table.split(|byte| *byte == b'\n');
        let lines = lines.filter(|line| line.windows(FS_TYPE.len()).any(|part| part == FS_TYPE));
        Self(lines.flat_map(|line| mountinfo::parse(line).filter_map(overlay)).collect())
    }

    /// The upper directory of a container's root. `group` is its cgroup's directory, if known. `None` if the
    /// machine has no such overlay, or the directory is not visible from here.
    pub fn upper(&self, id: &str, group: Option<&Path>) -> Option<PathBuf> {
        let mut last = self.0.iter().rev();
        let own = last.find(|overlay| is_root_of(&overlay.mount_point, id));
        let own = own.or_else(|| self.of_process(first_process(group?)?));
        let upper = own?.upper.clone();
        fs::symlink_metadata(&upper).ok().filter(fs::Metadata::is_dir).map(|_| upper)
    }

    fn of_process(&self, pid: u32) -> Option<&Overlay> {
        let device = root_device(&fs::read(format!("/proc/{pid}/mountinfo")).ok()?)?;
        self.0.iter().rev().find(|overlay| overlay.device == device)
    }
}

const FS_TYPE: &[u8] = b" - overlay ";

fn overlay(mut mount: mountinfo::MountInfo) -> Option<Overlay> {
    let upper = mount.super_options.remove("upperdir")??;
    let upper = PathBuf::from(mountinfo::unescape(&upper));
    (mount.fs_type == "overlay" && upper.is_absolute()).then_some(Overlay {
        mount_point: mount.mount_point,
        device: mount.majmin,
        upper,
    })
}

/// Whether this is the path at which containerd mounts the container's root:
/// `/run/containerd/io.containerd.runtime.v2.task/k8s.io/<id>/rootfs`.
fn is_root_of(mount_point: &Path, id: &str) -> bool {
    let above = mount_point.parent().and_then(Path::file_name);
    !id.is_empty()
        && mount_point.file_name().is_some_and(|name| name == "rootfs")
        && above.is_some_and(|name| name.as_bytes() == id.as_bytes())
}

/// The device number of what is mounted last at `/`, if that is an overlay.
fn root_device(table: &[u8]) -> Option<String> {
    let root = mountinfo::parse(table).rev().find(|mount| mount.mount_point == Path::new("/"))?;
    (root.fs_type == "overlay").then_some(root.majmin)
}

fn first_process(group: &Path) -> Option<u32> {
    let procs = fs::read_to_string(group.join("cgroup.procs")).ok()?;
    procs.lines().find_map(|line| line.trim().parse().ok().filter(|pid| *pid > 1))
}

#[cfg(test)]
mod tests;
