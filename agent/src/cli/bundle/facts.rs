//! Facts about the machine, from files of the kernel and the system.

use std::fs;
use std::path::Path;

/// Files that are copied, and the name of each in the archive.
const FILES: [(&str, &str); 18] = [
    ("/etc/os-release", "machine/os-release"),
    ("/proc/version", "machine/version"),
    ("/proc/cmdline", "machine/cmdline"),
    ("/proc/uptime", "machine/uptime"),
    ("/proc/loadavg", "machine/loadavg"),
    ("/proc/meminfo", "machine/meminfo"),
    ("/proc/swaps", "machine/swaps"),
    ("/proc/cgroups", "machine/cgroups"),
    ("/proc/pressure/cpu", "machine/pressure-cpu"),
    ("/proc/pressure/io", "machine/pressure-io"),
    ("/proc/pressure/memory", "machine/pressure-memory"),
    ("/sys/fs/cgroup/cgroup.controllers", "machine/cgroup.controllers"),
    ("/sys/fs/cgroup/cgroup.subtree_control", "machine/cgroup.subtree_control"),
    ("/sys/devices/system/cpu/online", "machine/cpus-online"),
    ("/sys/devices/system/node/online", "machine/numa-nodes-online"),
    ("/sys/kernel/security/lsm", "machine/security-modules"),
    ("/sys/kernel/security/lockdown", "machine/lockdown"),
    ("/proc/sys/kernel/osrelease", "machine/kernel"),
];
/// Kernel settings that decide what the agent can do.
const SETTINGS: [&str; 9] = [
    "kernel/kptr_restrict",
    "kernel/perf_event_paranoid",
    "kernel/unprivileged_bpf_disabled",
    "kernel/sched_schedstats",
    "kernel/panic_on_oops",
    "net/core/bpf_jit_enable",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "fs/inotify/max_user_instances",
];

/// What each file says; a file that is not there is left out.
pub fn read() -> Vec<(String, String)> {
    let files = FILES.iter().filter_map(|(path, name)| Some(((*name).to_owned(), text(Path::new(path))?)));
    let mut found: Vec<_> = files.collect();
    let settings = SETTINGS.iter().filter_map(|name| {
        let value = text(&Path::new("/proc/sys").join(name))?;
        Some(format!("{} = {}\n", name.replace('/', "."), value.trim()))
    });
    found.push(("machine/sysctl".to_owned(), settings.collect()));
    found.push(("machine/kernel-types".to_owned(), kernel_types()));
    if let Some(mounts) = text(Path::new("/proc/self/mountinfo")) {
        found.push(("machine/mounts".to_owned(), cgroup_mounts(&mounts)));
    }
    found
}

/// Whether the kernel describes its types, which the kernel programs need.
fn kernel_types() -> String {
    match fs::metadata("/sys/kernel/btf/vmlinux") {
        Ok(file) => format!("/sys/kernel/btf/vmlinux: {} bytes\n", file.len()),
        Err(error) => format!("/sys/kernel/btf/vmlinux: {error}\n"),
    }
}

/// The mounts that matter to the agent: cgroups, BPF, tracing.
fn cgroup_mounts(mountinfo: &str) -> String {
    let wanted = [" - cgroup", " - bpf ", " - tracefs ", " - debugfs "];
    let lines = mountinfo.lines().filter(|line| wanted.iter().any(|kind| line.contains(kind)));
    lines.map(|line| format!("{line}\n")).collect()
}

fn text(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_always_known() {
        let facts = read();
        let fact = |name: &str| facts.iter().find(|(own, _)| own == name).map(|(_, text)| text.as_str());
        assert!(fact("machine/version").unwrap().contains("Linux"));
        assert!(fact("machine/sysctl").unwrap().contains("vm.overcommit_memory = "));
        assert!(fact("machine/mounts").is_some());
    }

    #[test]
    fn only_mounts_of_the_kernels_own_are_kept() {
        let text =
            "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n4 5 0:6 / /home/me rw - ext4 /dev/sda rw\n";
        assert_eq!(cgroup_mounts(text), "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    }
}
