//! The file systems of a guest without an init system.

use std::path::Path;

use nix::mount::{MsFlags, mount};

use super::GuestError;
use super::error::write;

/// What the job itself needs: source, place, type.
const FIRST: [(&str, &str); 4] =
    [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run")];
/// What an init system would add.
const REST: [(&str, &str); 5] = [
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/tmp"),
    ("bpf", "/sys/fs/bpf"),
    ("tracefs", "/sys/kernel/tracing"),
];
/// The place of all cgroup hierarchies.
const CGROUPS: &str = "/sys/fs/cgroup";
/// The controllers of cgroup v1 (Documentation/admin-guide/cgroup-v1); a kernel may lack some.
const V1_CONTROLLERS: [&str; 12] = [
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "blkio",
    "devices",
    "freezer",
    "pids",
    "hugetlb",
    "perf_event",
    "net_cls",
    "net_prio",
];

/// Mounts what the job needs before anything else.
///
/// # Errors
/// When the kernel refuses one.
pub fn first() -> Result<(), GuestError> {
    FIRST.iter().try_for_each(|(kind, target)| mount_on(kind, kind, target, None))
}

/// Mounts what an init system would.
///
/// # Errors
/// When the kernel refuses one.
pub fn rest() -> Result<(), GuestError> {
    REST.iter().try_for_each(|(kind, target)| mount_on(kind, kind, target, None))
}

/// Mounts the v2 tree and hands every controller down from its root.
///
/// # Errors
/// When the kernel refuses.
pub fn cgroup_v2() -> Result<(), GuestError> {
    mount_on("cgroup2", "cgroup2", CGROUPS, None)?;
    let root = Path::new(CGROUPS);
    let path = root.join("cgroup.controllers");
    let controllers = std::fs::read_to_string(&path).map_err(GuestError::read(path))?;
    controllers
        .split_whitespace()
        .try_for_each(|controller| write(root.join("cgroup.subtree_control"), &format!("+{controller}")))
}

/// Mounts every v1 controller that the kernel has, each apart, and systemd's named hierarchy.
///
/// # Errors
/// When none can be mounted, or the kernel refuses the others.
pub fn cgroup_v1() -> Result<(), GuestError> {
    mount_on("tmpfs", "cgroup", CGROUPS, None)?;
    for controller in V1_CONTROLLERS {
        let target = format!("{CGROUPS}/{controller}");
        match mount_on("cgroup", controller, &target, Some(controller)) {
            // cgroup1_parse_param of the kernel: a controller it does not know is a wrong argument.
            Err(GuestError::Mount { source: nix::errno::Errno::EINVAL, .. }) => {
                eprintln!("no v1 controller {controller}");
                std::fs::remove_dir(&target).map_err(GuestError::make(target))?;
            }
            other => other?,
        }
    }
    let hierarchy = Path::new(CGROUPS).join("memory/memory.use_hierarchy");
    if hierarchy.exists() {
        write(hierarchy, "1")?;
    }
    mount_on("cgroup", "systemd", &format!("{CGROUPS}/systemd"), Some("none,name=systemd"))
}

/// Mounts a block device with an ext4 file system.
///
/// # Errors
/// When the kernel refuses.
pub fn disk(device: &Path, target: &str) -> Result<(), GuestError> {
    mount_on("ext4", &device.to_string_lossy(), target, None)
}

/// Mounts, making the place first.
fn mount_on(kind: &str, source: &str, target: &str, options: Option<&str>) -> Result<(), GuestError> {
    std::fs::create_dir_all(target).map_err(GuestError::make(target))?;
    mount(Some(source), target, Some(kind), MsFlags::empty(), options).map_err(|source| GuestError::Mount {
        kind: kind.to_owned(),
        target: target.into(),
        source,
    })
}

/// Moves a mount, or shows a directory at a second place, as `flags` say.
///
/// # Errors
/// When the kernel refuses.
pub fn again(from: &str, to: &str, flags: MsFlags) -> Result<(), GuestError> {
    mount(Some(from), to, None::<&str>, flags, None::<&str>).map_err(|source| GuestError::Mount {
        kind: from.to_owned(),
        target: to.into(),
        source,
    })
}
