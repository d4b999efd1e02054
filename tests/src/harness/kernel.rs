//! What this kernel is and has.

use std::path::Path;

/// The first Linux whose fanotify watches cgroups' file systems.
const FANOTIFY_OF_CGROUPS_SINCE: [u32; 2] = [6, 8];

/// Major and minor version of this kernel; `None` if they cannot be read.
pub fn kernel_version() -> Option<[u32; 2]> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = release.split(['.', '-']).map(str::parse);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

/// How this kernel can say which process writes a cgroup's file, if it can.
pub fn writers_are_seen_by() -> Option<&'static str> {
    if Path::new("/sys/bus/event_source/devices/kprobe/type").exists() {
        return Some("kprobes");
    }
    let is_new = kernel_version().is_some_and(|version| version >= FANOTIFY_OF_CGROUPS_SINCE);
    (is_new && Path::new("/proc/sys/fs/fanotify").exists()).then_some("fanotify")
}
