//! The processes and network interfaces of the pods of a snapshot.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nodewarden_model::{GroupView, Identity, Interface, Workload};
use procfs::net::DeviceStatus;
use procfs::process::Process;

use super::{Controller, Layout, join};

/// Interfaces that cAdvisor leaves out too: their traffic is the node's or the pods' already.
const IGNORED: [&str; 4] = ["lo", "veth", "docker", "nerdctl"];

/// Reads `cgroup.procs` of each container's cgroup and of those below it, and the interfaces that one process
/// of each pod has. By uid; what has ended meanwhile is left out.
pub fn workloads(layout: &Layout, groups: &[GroupView]) -> BTreeMap<String, Workload> {
    let Some(hierarchy) = layout.hierarchy(Controller::Memory).or_else(|| layout.hierarchy(Controller::Cpu))
    else {
        return BTreeMap::new();
    };
    let mut found: BTreeMap<String, Workload> = BTreeMap::new();
    for group in groups.iter().filter(|group| group.removed.is_none()) {
        let Identity::Container { pod_uid, sandbox, .. } = &*group.identity else { continue };
        let mut pids = Vec::new();
        if !add_processes(&join(&hierarchy.mount, &group.path), &mut pids) {
            continue;
        }
        let workload = found.entry(pod_uid.clone()).or_default();
        if !sandbox {
            *workload.processes.get_or_insert(0) += pids.len() as u64;
        }
        if workload.interfaces.is_empty() {
            workload.interfaces = pids.into_iter().find_map(interfaces_of).unwrap_or_default();
        }
    }
    found
}

/// Adds the processes of a cgroup's directory and of those below. False if it is gone.
fn add_processes(dir: &Path, pids: &mut Vec<i32>) -> bool {
    // A threaded cgroup lists none: they are in the one above.
    match fs::read_to_string(dir.join("cgroup.procs")) {
        Ok(text) => pids.extend(text.lines().filter_map(|line| line.trim().parse::<i32>().ok())),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
        Err(_) => return false,
    }
    let below = fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        add_processes(&entry.path(), pids);
    }
    true
}

/// The interfaces of a process's network namespace; `None` if it has ended.
fn interfaces_of(pid: i32) -> Option<Vec<Interface>> {
    // 0 is a process of another pid namespace.
    let process = Process::new(Some(pid).filter(|pid| *pid > 0)?).ok()?;
    Some(interfaces(process.dev_status().ok()?.into_values()))
}

/// Without those that cAdvisor leaves out, by name.
pub(super) fn interfaces(all: impl Iterator<Item = DeviceStatus>) -> Vec<Interface> {
    let mut found: Vec<Interface> = all
        .filter(|d| !IGNORED.iter().any(|prefix| d.name.starts_with(prefix)))
        .map(|d| Interface {
            name: d.name,
            rx_bytes: d.recv_bytes,
            rx_packets: d.recv_packets,
            rx_errors: d.recv_errs,
            rx_dropped: d.recv_drop,
            tx_bytes: d.sent_bytes,
            tx_packets: d.sent_packets,
            tx_errors: d.sent_errs,
            tx_dropped: d.sent_drop,
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_counted_with_those_below() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a").join("b");
        fs::create_dir_all(&below).unwrap();
        fs::write(dir.path().join("cgroup.procs"), "1\n0\n").unwrap();
        fs::write(dir.path().join("a/cgroup.procs"), "").unwrap();
        fs::write(below.join("cgroup.procs"), "77\n").unwrap();
        let mut pids = Vec::new();
        assert!(add_processes(dir.path(), &mut pids));
        assert_eq!(pids, [1, 0, 77]);
        assert!(!add_processes(&dir.path().join("gone"), &mut pids));
    }

    #[test]
    fn a_process_has_the_interfaces_of_its_namespace() {
        let own = interfaces_of(std::process::id() as i32).unwrap();
        assert!(own.iter().all(|interface| interface.name != "lo"), "{own:?}");
        assert_eq!(interfaces_of(0), None);
        assert_eq!(interfaces_of(i32::MAX), None);
    }
}
