//! Orphaned logs: of runs whose container was removed, and of pods that are gone (kubelet
//! `removeContainerLog`, `evictPodLogsDirectories`). Only names of the kubelet's layout are considered,
//! `<namespace>_<pod>_<uid>/<container>/<run>.log` and what was rotated from it; links are not followed.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use nodewarden_model::PodView;
use nodewarden_pods::volume::VolumeError;
use nodewarden_pods::{log_owner, volume};

use super::containers::{Pods, Present};

const DIRECTORY: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

/// A pod's log directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodLogs {
    /// Name of the directory.
    pub directory: String,
    /// The agent whose logs they are ([`log_owner`]); `None` for a kubelet's and those of earlier versions.
    pub owner: Option<String>,
    pub uid: String,
    pub files: Vec<LogFile>,
}

/// A log file of a container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogFile {
    pub container: String,
    pub name: String,
    pub run: u32,
}

/// Logs to remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Orphan {
    /// All logs of a pod that is gone.
    Pod { directory: String, uid: String },
    /// A log of a run whose container was removed.
    Run { directory: String, container: String, name: String },
}

impl Orphan {
    /// The path below the directory of logs.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Pod { directory, .. } => PathBuf::from(directory),
            Self::Run { directory, container, name } => [directory, container, name].iter().collect(),
        }
    }
}

/// Lists the logs in the kubelet's layout; none if `root` does not exist. Call this before the runtime is
/// asked for its containers, so that logs in use belong to a container in its list. Those of pods with these
/// uids are left out.
///
/// # Errors
/// A directory cannot be listed.
pub fn scan(root: &Path, without: &HashSet<&str>) -> Result<Vec<PodLogs>, VolumeError> {
    let mut pods = Vec::new();
    for directory in directories(root)? {
        let Some(uid) = uid_of(&directory).filter(|uid| !without.contains(uid)) else { continue };
        let (mut files, dir) = (Vec::new(), root.join(&directory));
        for container in directories(&dir)? {
            for name in names(&dir.join(&container), |kind| !kind.is_dir())? {
                if let Some(run) = run_of(&name) {
                    files.push(LogFile { container: container.clone(), name, run });
                }
            }
        }
        files.sort();
        pods.push(PodLogs { uid: uid.to_owned(), owner: log_owner::owner(&dir), directory, files });
    }
    pods.sort_by(|a, b| a.directory.cmp(&b.directory));
    Ok(pods)
}

/// Selects the orphaned logs of the agent `owner`: all logs of its pods that no longer exist and of which the
/// runtime has nothing; and of its present pods the runs without a container. Logs of a kubelet's or another
/// agent's pods are left alone: who made them may still want them. The logs of a terminating pod are kept
/// until it is gone; those of an evicted or preempted pod are kept too, unless `all_unused` (the disk is
/// short of space).
pub fn orphans(
    found: &[PodLogs],
    owner: &str,
    pods: &Pods,
    present: &Present,
    all_unused: bool,
) -> Vec<Orphan> {
    let mut orphans = Vec::new();
    for logs in found {
        let directory = logs.directory.clone();
        if pods.no_longer_exists(&logs.uid) {
            if logs.owner.as_deref() == Some(owner) && !present.uids.contains(&logs.uid) {
                orphans.push(Orphan::Pod { directory, uid: logs.uid.clone() });
            }
        } else if pods.get(&logs.uid).is_some_and(|view| is_settled(view, all_unused)) {
            let gone = |file: &&LogFile| {
                !present.runs.contains(&(logs.uid.clone(), file.container.clone(), file.run))
            };
            orphans.extend(logs.files.iter().filter(gone).map(|file| Orphan::Run {
                directory: directory.clone(),
                container: file.container.clone(),
                name: file.name.clone(),
            }));
        }
    }
    orphans
}

/// Whether logs without a container of this pod may be removed.
fn is_settled(view: &PodView, all_unused: bool) -> bool {
    view.terminating.is_none() && (all_unused || !view.is_evicted_or_preempted())
}

/// Log directories of this agent's present pods that have no owner yet: they were made by an earlier version.
pub fn unmarked<'a>(found: &'a [PodLogs], pods: &Pods) -> impl Iterator<Item = &'a str> {
    let ours = |logs: &&PodLogs| logs.owner.is_none() && pods.get(&logs.uid).is_some();
    found.iter().filter(ours).map(|logs| logs.directory.as_str())
}

/// Removes orphaned logs; succeeds if they do not exist.
///
/// # Errors
/// They cannot be removed, or something is mounted there.
pub fn remove(root: &Path, orphan: &Orphan) -> Result<(), VolumeError> {
    match orphan {
        Orphan::Pod { directory, .. } => volume::remove(&root.join(directory)),
        Orphan::Run { directory, container, name } => {
            let path = root.join(orphan.path());
            let unlinked = || {
                let nofollow = DIRECTORY.union(OFlag::O_NOFOLLOW);
                let top = open(root, DIRECTORY, Mode::empty())?;
                let pod = openat(&top, directory.as_str(), nofollow, Mode::empty())?;
                let dir = openat(&pod, container.as_str(), nofollow, Mode::empty())?;
                unlinkat(&dir, name.as_str(), UnlinkatFlags::NoRemoveDir)
            };
            match unlinked() {
                Ok(()) | Err(Errno::ENOENT) => Ok(()),
                Err(errno) => Err(VolumeError::File { call: "remove", path, source: errno.into() }),
            }
        }
    }
}

/// The uid in `<namespace>_<pod>_<uid>`: none of the three can contain an underscore.
fn uid_of(directory: &str) -> Option<&str> {
    let parts: Vec<&str> = directory.split('_').collect();
    let [namespace, pod, uid] = parts[..] else { return None };
    let word = |text: &str, more: &[u8]| {
        !text.is_empty()
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || more.contains(&b))
    };
    let is_uid = !uid.is_empty() && uid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    (word(namespace, b"-") && word(pod, b"-.") && is_uid).then_some(uid)
}

/// The run in `<run>.log`, `<run>.log.<time>` and names that are longer.
fn run_of(name: &str) -> Option<u32> {
    let (run, rest) = name.split_once(".log")?;
    let digits = !run.is_empty() && run.bytes().all(|b| b.is_ascii_digit());
    (digits && (rest.is_empty() || rest.starts_with('.'))).then(|| run.parse().ok())?
}

fn directories(dir: &Path) -> Result<Vec<String>, VolumeError> {
    names(dir, |kind| kind.is_dir())
}

/// UTF-8 names of the entries of the wanted kind; links have a kind of their own. A directory that no longer
/// exists has none.
fn names(dir: &Path, wanted: impl Fn(fs::FileType) -> bool) -> Result<Vec<String>, VolumeError> {
    let fail = |call| {
        let path = dir.to_owned();
        move |source| VolumeError::File { call, path, source }
    };
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(fail("open"))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(fail("list"))?;
        match entry.file_type() {
            Ok(kind) if wanted(kind) => found.extend(entry.file_name().into_string()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(fail("stat")(error)),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
