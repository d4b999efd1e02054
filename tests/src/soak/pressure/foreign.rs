//! What belongs to others and must be as it is whatever the agent does: a pod's cgroup that is none of its
//! pods, a cgroup elsewhere, a process, and files next to the agent's.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::fixture::{Group, TestRoot, Worker};
use crate::harness::{Context, Failure};

const TEXT: &str = "not the agent's\n";
/// The uid of the foreign pod.
const UID: &str = "f0f0f0f0-0000-4000-8000-00000000f0f0";

/// Made before the first round.
pub struct Foreign {
    // Ended before their cgroups are removed. With /proc/PID/cgroup.
    workers: Vec<(Worker, String)>,
    _root: TestRoot,
    files: Vec<(PathBuf, [i64; 4])>,
}

impl Foreign {
    /// A foreign pod below the cgroup `pods`, or below systemd's slice of pods, and a file in each of
    /// `folders`.
    pub fn new(context: &Context, pods: Option<&str>, folders: &[PathBuf]) -> Result<Self, Failure> {
        let root = TestRoot::named(context, "-foreign")?;
        let elsewhere = root.child("other")?;
        let pod = match pods {
            Some(pods) => {
                let pods = Group::new(Arc::clone(&context.layout), pods.to_owned());
                Worker::start(context, Some(&pods.child(&format!("pod{UID}"))?), &["sleep"])?
            }
            None => {
                let slice = format!("kubepods-pod{}.slice", UID.replace('-', "_"));
                let mut command = Command::new("systemd-run");
                command.args(["--scope", "--quiet", "--collect", "--slice", &slice, "--"]);
                let mut worker = Worker::spawn_through(context, command, &["sleep"])?;
                worker.go()?;
                worker
            }
        };
        let others = [None, Some(&elsewhere)].map(|group| Worker::start(context, group, &["sleep"]));
        let mut workers = Vec::new();
        for worker in others.into_iter().chain([Ok(pod)]) {
            let worker = worker?;
            let groups = groups(worker.pid());
            workers.push((worker, groups));
        }
        let mut files = Vec::new();
        for folder in folders {
            let folder = folder.join("foreign");
            fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
            let path = folder.join("file");
            fs::write(&path, TEXT).map_err(Failure::file(&path))?;
            let found = identity(&path)?;
            files.push((path, found));
        }
        Ok(Self { workers, _root: root, files })
    }

    /// What is not as it was.
    pub fn changes(&self) -> Vec<String> {
        let mut changes = Vec::new();
        for (worker, before) in &self.workers {
            let (pid, now) = (worker.pid(), groups(worker.pid()));
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if state.is_empty() || state.contains(") Z ") || now != *before {
                changes
                    .push(format!("the foreign process {pid} has ended or is elsewhere: {before:?} {now:?}"));
            }
        }
        for (path, before) in &self.files {
            let text = fs::read_to_string(path).unwrap_or_default();
            let is_same = identity(path).is_ok_and(|now| now == *before);
            if text != TEXT || !is_same {
                changes.push(format!("{} is not as it was", path.display()));
            }
        }
        changes
    }
}

/// The cgroups of a process.
fn groups(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default()
}

/// What changes when a file is replaced or written.
fn identity(path: &Path) -> Result<[i64; 4], Failure> {
    let found = fs::symlink_metadata(path).map_err(Failure::file(path))?;
    Ok([found.ino().cast_signed(), found.mtime(), found.mtime_nsec(), i64::from(found.mode())])
}
