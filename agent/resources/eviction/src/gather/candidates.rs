//! Reads what pods use now.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::layers::{Layers, upper_directory};
use super::memory::{GroupMemory, Memory, directory, text};
use super::open_file::OpenFile;
use super::walk::disk_use;
use crate::{Candidate, ContainerUse, DiskUse, PodDisk, RequiredStats};
use nodewarden_machine::cgroup::parse::number;
use nodewarden_machine::cgroup::{Controller, Layout, Version};
use nodewarden_manifest::Pod;
use nodewarden_pods::paths::empty_dir;

/// A pod that may be evicted, with the paths of its cgroup and directories.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Path of its cgroup, relative to the mounts.
    pub cgroup: String,
    /// When it started.
    pub started: Timestamp,
    /// Its directory, with its volumes.
    pub pod_dir: PathBuf,
    /// Directory of its containers' logs, one directory each.
    pub logs: PathBuf,
    /// Name and id of each running container.
    pub containers: Vec<(String, String)>,
}

/// Time limit for counting the disk use of one pod; what was counted by then is used.
const DISK_LIMIT: Duration = Duration::from_secs(2);
/// Time limit for all pods; a pod that is not reached by then has no figures.
const DISKS_LIMIT: Duration = Duration::from_secs(10);
/// Threads that count: file systems answer several requests at a time.
const DISK_THREADS: usize = 4;

/// Reads the figures that `needs` asks for of every pod and its containers, in the order of `subjects`.
/// Writable layers that are overlays are counted now; for others, `layers` is used.
pub fn candidates(
    layout: &Layout,
    subjects: &[Subject],
    needs: RequiredStats,
    layers: Option<&Layers>,
) -> Vec<Candidate> {
    let mut buffer = Vec::new();
    let mut of_one = |subject: &Subject| {
        let mut candidate = Candidate {
            pod: subject.pod.clone(),
            cgroup: subject.cgroup.clone(),
            started: subject.started,
            memory: None,
            disk: None,
            processes: if needs.processes { threads(layout, &subject.cgroup, &mut buffer) } else { None },
            containers: BTreeMap::new(),
            memory_request: None,
        };
        if needs.memory {
            memory(layout, subject, &mut candidate, &mut buffer);
        }
        candidate
    };
    let mut found: Vec<Candidate> = subjects.iter().map(&mut of_one).collect();
    if needs.disk {
        for (candidate, used) in found.iter_mut().zip(disk(layout, subjects, layers)) {
            if let Some((disk, containers)) = used {
                candidate.disk = Some(disk);
                for (name, used) in containers {
                    let memory = candidate.containers.get(&name).and_then(|before| before.memory);
                    candidate.containers.insert(name, ContainerUse { memory, ..used });
                }
            }
        }
    }
    found
}

/// Sets the working sets of the pod and of each container.
fn memory(layout: &Layout, subject: &Subject, candidate: &mut Candidate, buffer: &mut Vec<u8>) {
    let Some((dir, version)) = directory(layout, Controller::Memory, &subject.cgroup) else { return };
    candidate.memory = working_set(&dir, version, buffer);
    if candidate.memory.is_none() || subject.containers.is_empty() {
        return;
    }
    let below = children(&dir);
    for (name, id) in &subject.containers {
        let memory = of_container(&below, id).and_then(|dir| working_set(dir, version, buffer));
        candidate.containers.insert(name.clone(), ContainerUse { memory, ..ContainerUse::default() });
    }
}

fn working_set(dir: &Path, version: Version, buffer: &mut Vec<u8>) -> Option<u64> {
    GroupMemory::at(dir, version).read_use(buffer).map(Memory::working_set)
}

/// Number of threads, since that is what a node runs out of, from the cgroup. The kubelet counts processes.
fn threads(layout: &Layout, path: &str, buffer: &mut Vec<u8>) -> Option<u64> {
    let (dir, _) = directory(layout, Controller::Pids, path)?;
    text(&mut OpenFile::new(dir.join("pids.current")), buffer).and_then(number)
}

type DiskFound = (PodDisk, BTreeMap<String, ContainerUse>);

/// Disk use in the order of the subjects; `None` for those that were not reached in time.
fn disk(layout: &Layout, subjects: &[Subject], layers: Option<&Layers>) -> Vec<Option<DiskFound>> {
    let (next, until) = (AtomicUsize::new(0), Instant::now() + DISKS_LIMIT);
    let work = || {
        let mut found = Vec::new();
        while Instant::now() < until {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(subject) = subjects.get(at) else { break };
            found.push((at, disk_of(layout, subject, layers)));
        }
        found
    };
    let mut all: Vec<Option<DiskFound>> = subjects.iter().map(|_| None).collect();
    let mut keep = |found: Vec<(usize, DiskFound)>| {
        for (at, one) in found {
            if let Some(slot) = all.get_mut(at) {
                *slot = Some(one);
            }
        }
    };
    thread::scope(|scope| {
        let spawn = |_| thread::Builder::new().name("disk use".into()).spawn_scoped(scope, work).ok();
        let helpers: Vec<_> = (1..DISK_THREADS.min(subjects.len())).filter_map(spawn).collect();
        keep(work());
        helpers.into_iter().filter_map(|helper| helper.join().ok()).for_each(&mut keep);
    });
    all
}

fn disk_of(layout: &Layout, subject: &Subject, layers: Option<&Layers>) -> DiskFound {
    let until = Instant::now() + DISK_LIMIT;
    let below = directory(layout, Controller::Memory, &subject.cgroup);
    let below = below.map(|(dir, _)| children(&dir)).unwrap_or_default();
    let mut disk = PodDisk {
        root: DiskUse::default(),
        logs: disk_use(&subject.logs, until),
        volumes: disk_use(&subject.pod_dir, until),
    };
    let mut containers = BTreeMap::new();
    for (name, id) in &subject.containers {
        let counted = of_container(&below, id).and_then(upper_directory);
        let root = match counted {
            Some(upper) => Some(disk_use(&upper, until)),
            None => layers.and_then(|layers| layers.get(id)).copied(),
        };
        if let Some(root) = root {
            disk.root.bytes = disk.root.bytes.saturating_add(root.bytes);
            disk.root.inodes = disk.root.inodes.saturating_add(root.inodes);
        }
        let logs = Some(disk_use(&subject.logs.join(name), until));
        containers.insert(name.clone(), ContainerUse { memory: None, root, logs });
    }
    (disk, containers)
}

/// Bytes used by these `emptyDir` volumes, by name.
pub fn empty_dirs<'n>(subject: &Subject, names: impl Iterator<Item = &'n str>) -> BTreeMap<String, u64> {
    let until = Instant::now() + DISK_LIMIT;
    let used = |name: &str| disk_use(&empty_dir(&subject.pod_dir, name), until).bytes;
    names.map(|name| (name.to_owned(), used(name))).collect()
}

/// The directories of the cgroups directly below one.
fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// The cgroup of a container: `<id>`, `cri-containerd-<id>.scope`, `crio-<id>.scope`; not
/// `crio-conmon-<id>.scope`.
fn of_container<'d>(below: &'d [PathBuf], id: &str) -> Option<&'d Path> {
    let is_its = |dir: &&PathBuf| {
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        !id.is_empty() && !name.contains("conmon") && name.trim_end_matches(".scope").ends_with(id)
    };
    below.iter().find(is_its).map(PathBuf::as_path)
}

/// Returns a function that reads the working set of one cgroup.
#[cfg(test)]
pub fn candidate_memory(layout: &Layout, path: &str) -> impl FnMut() -> Option<u64> {
    let mut memory = GroupMemory::of(layout, path);
    move || memory.as_mut()?.read_use(&mut Vec::new()).map(Memory::working_set)
}

#[cfg(test)]
mod tests;
