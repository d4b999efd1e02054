//! Reads what pods use now.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::memory::{GroupMemory, Memory, directory, text};
use super::open_file::OpenFile;
use crate::{Candidate, ContainerUse, RequiredStats};
use nodewarden_machine::cgroup::parse::number;
use nodewarden_machine::cgroup::{Controller, Layout, Version};
use nodewarden_manifest::Pod;

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

/// Reads memory and processes of every pod and its containers as far as `needs` asks for them, in the order
/// of `subjects`. Their disk use comes from [`crate::usage`].
pub fn candidates(layout: &Layout, subjects: &[Subject], needs: RequiredStats) -> Vec<Candidate> {
    let mut found = pods(layout, subjects, needs);
    if needs.memory {
        found.iter_mut().zip(subjects).for_each(|(pod, subject)| containers(layout, subject, pod));
    }
    found
}

/// As [`candidates`], without the containers: a pod is ranked by its own figures.
pub fn pods(layout: &Layout, subjects: &[Subject], needs: RequiredStats) -> Vec<Candidate> {
    let mut buffer = Vec::new();
    let of_one = |subject: &Subject| {
        let memory = if needs.memory { pod_working_set(layout, subject, &mut buffer) } else { None };
        let processes = if needs.processes { threads(layout, &subject.cgroup, &mut buffer) } else { None };
        Candidate { processes, ..of_pod(subject, memory) }
    };
    subjects.iter().map(of_one).collect()
}

fn pod_working_set(layout: &Layout, subject: &Subject, buffer: &mut Vec<u8>) -> Option<u64> {
    GroupMemory::of(layout, &subject.cgroup)?.read_use(buffer).map(Memory::working_set)
}

/// As [`pods`], with usage in place of the working set, which is at most so much and takes longer to read:
/// [`subtract_inactive_file`] makes one of the other. `memory` are the files of each pod.
pub fn pods_with_usage(subjects: &[Subject], memory: &mut [Option<GroupMemory>]) -> Vec<Candidate> {
    let mut buffer = Vec::new();
    let usage = |memory: &mut Option<GroupMemory>| memory.as_mut()?.read_usage(&mut buffer);
    subjects.iter().zip(memory.iter_mut().map(usage)).map(|(subject, usage)| of_pod(subject, usage)).collect()
}

/// A pod of which only memory is known.
fn of_pod(subject: &Subject, memory: Option<u64>) -> Candidate {
    Candidate {
        pod: subject.pod.clone(),
        cgroup: subject.cgroup.clone(),
        started: subject.started,
        memory,
        disk: None,
        processes: None,
        containers: BTreeMap::new(),
        memory_request: None,
    }
}

/// The working set, in bytes, of a pod whose `usage` was read before; `None` if the pod is gone. `memory` are
/// its files.
pub fn subtract_inactive_file(memory: &mut GroupMemory, usage: u64) -> Option<u64> {
    let inactive_file = memory.read_inactive_file(&mut Vec::new())?;
    Some(Memory { usage, inactive_file, limit: None }.working_set())
}

/// Sets the working sets of the pod's containers, if its own is known.
pub fn containers(layout: &Layout, subject: &Subject, candidate: &mut Candidate) {
    let Some((dir, version)) = directory(layout, Controller::Memory, &subject.cgroup) else { return };
    if candidate.memory.is_none() || subject.containers.is_empty() {
        return;
    }
    let (below, mut buffer) = (LazyCell::new(|| children(&dir)), Vec::new());
    for (name, id) in &subject.containers {
        // The name that the cgroupfs driver gives it, which needs no list.
        let direct = (!id.is_empty()).then(|| working_set(&dir.join(id), version, &mut buffer)).flatten();
        let memory = direct.or_else(|| working_set(container_group(&below, id)?, version, &mut buffer));
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

/// The directories of the cgroups below a pod's; empty if it has none.
pub fn groups_below(layout: &Layout, path: &str) -> Vec<PathBuf> {
    directory(layout, Controller::Memory, path).map(|(dir, _)| children(&dir)).unwrap_or_default()
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
pub fn container_group<'d>(below: &'d [PathBuf], id: &str) -> Option<&'d Path> {
    let is_its = |dir: &&PathBuf| {
        is_of_container(dir.file_name().and_then(|name| name.to_str()).unwrap_or_default(), id)
    };
    below.iter().find(is_its).map(PathBuf::as_path)
}

/// Whether a cgroup of this name, without a path, is the container's.
pub fn is_of_container(name: &str, id: &str) -> bool {
    !id.is_empty() && !name.contains("conmon") && name.trim_end_matches(".scope").ends_with(id)
}

/// Returns a function that reads the working set of one cgroup.
#[cfg(test)]
pub fn candidate_memory(layout: &Layout, path: &str) -> impl FnMut() -> Option<u64> {
    let mut memory = GroupMemory::of(layout, path);
    move || memory.as_mut()?.read_use(&mut Vec::new()).map(Memory::working_set)
}

#[cfg(test)]
mod tests;
