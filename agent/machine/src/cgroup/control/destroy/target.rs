//! A pod whose processes may have to be killed soon, with the files open that this takes: on a virtual
//! machine each that is opened and closed for it costs ten microseconds.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

use super::at_once::{Listed, own_below};
use super::refuse_own;
use crate::cgroup::control::{Consumption, GroupFiles, members};
use crate::cgroup::group_path::join;
use crate::cgroup::{Hierarchy, pread_all};

/// A sandbox's process uses less memory than this, in bytes.
const SMALL: u64 = 2 << 20;

/// Its files in the v2 hierarchy.
///
/// The process of its sandbox is left for later: as soon as that ends, the runtime starts half a dozen
/// processes, which in a trace took a CPU for 13 ms from those that give their memory back.
#[derive(Debug)]
pub struct KillTarget {
    path: String,
    /// Itself, or each cgroup directly below it but the sandbox's.
    parts: Vec<Part>,
    /// The cgroups from the path down.
    groups: Vec<String>,
    /// `cgroup.procs` of them, but for the sandbox's.
    processes: Vec<File>,
    /// The sandbox's.
    sandbox: Option<File>,
}

/// A cgroup that is killed with what is below it.
#[derive(Debug)]
struct Part {
    /// `cgroup.kill`.
    kill: File,
    /// `cgroup.events`.
    events: File,
}

impl Part {
    fn open(unified: &Hierarchy, group: &str) -> io::Result<Self> {
        let directory = join(&unified.mount, group);
        let kill = OpenOptions::new().write(true).open(directory.join("cgroup.kill"))?;
        Ok(Self { kill, events: File::open(directory.join("cgroup.events"))? })
    }

    /// Whether a process is left. One that is exiting is in it until its memory is free, although
    /// `cgroup.procs` does not list it any more.
    fn is_populated(&self) -> bool {
        pread_all(&self.events, &mut Vec::new())
            .is_ok_and(|text| text.windows(POPULATED.len()).any(|line| line == POPULATED))
    }
}

const POPULATED: &[u8] = b"populated 1";

impl KillTarget {
    /// Opens the files of `path`. `may_be_sandbox` returns whether a cgroup directly below it, of which it
    /// gets the name, is of no container that is known. `None` if it is not in the v2 hierarchy or has no
    /// process there, if the kernel has no `cgroup.kill` (before Linux 5.14), and if it holds this process or
    /// process 1 in any hierarchy.
    pub fn open(files: &GroupFiles, path: &str, may_be_sandbox: impl Fn(&str) -> bool) -> Option<Self> {
        let unified = files.layout().unified()?;
        refuse_own(path, &own_below(files, path)).ok()?;
        let groups = members::subtree_in(unified, path).ok()?;
        let file = |group: &str| File::open(join(&unified.mount, group).join("cgroup.procs"));
        let (mut processes, mut sandbox, mut others) = (Vec::new(), None, 0);
        for group in &groups {
            let procs = file(group).ok()?;
            let pids = pids(&procs).ok()?.len();
            let name = group.strip_prefix(path).and_then(|rest| rest.strip_prefix('/'));
            let may_be = |name: &str| sandbox.is_none() && pids == 1 && may_be_sandbox(name);
            if name.is_some_and(may_be) && is_small_leaf(files, &groups, group) {
                sandbox = Some((group, procs));
            } else if pids > 0 && name.is_none() {
                // Its own `cgroup.kill` is the only one that reaches these.
                return Self::open_whole(unified, path, groups.clone());
            } else {
                others += pids;
                processes.push(procs);
            }
        }
        let Some((sandbox, procs)) = sandbox.filter(|_| others > 0) else {
            return Self::open_whole(unified, path, groups);
        };
        let directly_below = |group: &&String| {
            let rest = group.strip_prefix(path).unwrap_or_default();
            *group != sandbox && rest.rfind('/') == Some(0)
        };
        let parts = groups.iter().filter(directly_below).map(|group| Part::open(unified, group));
        let parts = parts.collect::<io::Result<_>>().ok()?;
        Some(Self { path: path.to_owned(), parts, groups, processes, sandbox: Some(procs) })
    }

    /// With nothing left for later.
    fn open_whole(unified: &Hierarchy, path: &str, groups: Vec<String>) -> Option<Self> {
        let file = |group: &String| File::open(join(&unified.mount, group).join("cgroup.procs"));
        let processes: Vec<File> = groups.iter().map(file).collect::<io::Result<_>>().ok()?;
        let parts = vec![Part::open(unified, path).ok()?];
        let target = Self { path: path.to_owned(), parts, groups, processes, sandbox: None };
        (!target.is_empty()).then_some(target)
    }

    /// Of which cgroup it is.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether no process is left in the cgroups that were there, but the sandbox's.
    pub fn is_empty(&self) -> bool {
        !self.parts.iter().any(Part::is_populated)
    }

    /// The processes that are in its cgroups now, but the sandbox's. `None` if there are none or they cannot
    /// be read: what is there has to be looked for again.
    pub(super) fn list(&self) -> Option<Listed> {
        let mut found = BTreeSet::new();
        for file in &self.processes {
            found.extend(pids(file).ok()?);
        }
        (!found.is_empty()).then(|| Listed { groups: self.groups.clone(), pids: found, in_v2: true })
    }

    /// The process of the sandbox, if it is left for later.
    pub(super) fn sandbox(&self) -> BTreeSet<i32> {
        self.sandbox.as_ref().and_then(|file| pids(file).ok()).unwrap_or_default()
    }

    /// Kills what is in it and below it, but the sandbox's process. False if that failed.
    pub(super) fn kill(&self) -> bool {
        self.parts.iter().all(|part| (&part.kill).write_all(b"1").is_ok())
    }
}

fn is_small_leaf(files: &GroupFiles, groups: &[String], group: &str) -> bool {
    let is_below = |other: &String| other.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'));
    !groups.iter().any(is_below)
        && matches!(Consumption::read_memory(files, group), Ok(Some(bytes)) if bytes < SMALL)
}

/// What is listed in this `cgroup.procs`; nothing if the cgroup was removed.
fn pids(file: &File) -> io::Result<BTreeSet<i32>> {
    let mut buffer = Vec::new();
    let text = match pread_all(file, &mut buffer) {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return Ok(BTreeSet::new()),
        text => String::from_utf8_lossy(text?),
    };
    Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}
