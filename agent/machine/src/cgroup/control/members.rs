//! The cgroups and processes below a cgroup, in all hierarchies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::GroupFiles;
use crate::cgroup::group_path::join;
use crate::cgroup::membership::parse_memberships;
use crate::cgroup::{CgroupError, Controller, Hierarchy};

/// Names of the children of `path` in all hierarchies, sorted.
///
/// # Errors
/// A directory exists and cannot be listed.
pub fn children(files: &GroupFiles, path: &str) -> Result<BTreeSet<String>, CgroupError> {
    let mut names = BTreeSet::new();
    for (_, dir) in files.directories(path) {
        list(&dir, &mut names)?;
    }
    Ok(names)
}

/// Names of the children of `path` in any hierarchy, sorted, and whether each is in all of them.
///
/// # Errors
/// As [`children`].
pub fn children_by_presence(files: &GroupFiles, path: &str) -> Result<BTreeMap<String, bool>, CgroupError> {
    let (mut found, mut hierarchies) = (BTreeMap::<String, usize>::new(), 0);
    for (_, dir) in files.directories(path) {
        hierarchies += 1;
        let mut names = BTreeSet::new();
        list(&dir, &mut names)?;
        names.into_iter().for_each(|name| *found.entry(name).or_default() += 1);
    }
    Ok(found.into_iter().map(|(name, count)| (name, count == hierarchies)).collect())
}

/// Names of the children of `path` in the hierarchy of memory, else of the CPU, else in all; sorted.
///
/// # Errors
/// As [`children`].
pub fn children_in_one(files: &GroupFiles, path: &str) -> Result<BTreeSet<String>, CgroupError> {
    let Some(one) = one(files) else { return children(files, path) };
    let mut names = BTreeSet::new();
    list(&join(&one.mount, path), &mut names)?;
    Ok(names)
}

/// The hierarchy of memory, else of the CPU: where there are a dozen, one of them is listed in a tenth of the
/// time, and has all cgroups and processes as a rule.
pub fn one(files: &GroupFiles) -> Option<&Hierarchy> {
    [Controller::Memory, Controller::Cpu]
        .into_iter()
        .find_map(|controller| files.layout().hierarchy(controller))
}

/// Names of the directories in `dir`; none if it does not exist.
fn list(dir: &Path, names: &mut BTreeSet<String>) -> Result<(), CgroupError> {
    let failed = |source| CgroupError::file("read directory", dir, source);
    // A directory of kernfs, as of most file systems, has a link of each directory in it and two more.
    if fs::metadata(dir).is_ok_and(|found| found.is_dir() && found.nlink() == 2) {
        return Ok(());
    }
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if super::group_files::is_gone(&error) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if super::group_files::is_gone(&error) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        if entry.file_type().is_ok_and(|kind| kind.is_dir())
            && let Ok(name) = entry.file_name().into_string()
        {
            names.insert(name);
        }
    }
    Ok(())
}

/// `path` and every cgroup below it in all hierarchies, children before their parents.
///
/// # Errors
/// As [`children`].
pub fn subtree(files: &GroupFiles, path: &str) -> Result<Vec<String>, CgroupError> {
    subtree_by(path, |group| children(files, group))
}

/// The cgroups of [`subtree`] in one hierarchy.
///
/// # Errors
/// As [`children`].
pub fn subtree_in(hierarchy: &Hierarchy, path: &str) -> Result<Vec<String>, CgroupError> {
    subtree_by(path, |group| {
        let mut names = BTreeSet::new();
        list(&join(&hierarchy.mount, group), &mut names)?;
        Ok(names)
    })
}

/// The cgroups of [`subtree_in`] and their processes there.
///
/// # Errors
/// As [`children`] and [`pids`].
pub fn in_hierarchy(
    files: &GroupFiles,
    hierarchy: &Hierarchy,
    path: &str,
) -> Result<(Vec<String>, BTreeSet<i32>), CgroupError> {
    let groups = subtree_in(hierarchy, path)?;
    let pids = pids_in(files, &groups, |other| other.id == hierarchy.id)?;
    Ok((groups, pids))
}

fn subtree_by(
    path: &str,
    children: impl Fn(&str) -> Result<BTreeSet<String>, CgroupError>,
) -> Result<Vec<String>, CgroupError> {
    let mut found = vec![path.to_owned()];
    let mut at = 0;
    while let Some(group) = found.get(at) {
        let below: Vec<String> = children(group)?.into_iter().map(|name| format!("{group}/{name}")).collect();
        found.extend(below);
        at += 1;
    }
    found.reverse();
    Ok(found)
}

/// Every process (thread group) of these cgroups in any hierarchy. 0 stands for a process in another pid
/// namespace, which this process cannot see.
///
/// # Errors
/// A file exists and cannot be read.
pub fn pids(files: &GroupFiles, groups: &[String]) -> Result<BTreeSet<i32>, CgroupError> {
    pids_in(files, groups, |_| true)
}

/// As [`pids`], but only in the hierarchy of [`children_in_one`].
///
/// # Errors
/// As [`pids`].
pub fn pids_in_one(files: &GroupFiles, groups: &[String]) -> Result<BTreeSet<i32>, CgroupError> {
    let one = one(files).map(|hierarchy| hierarchy.id);
    pids_in(files, groups, |hierarchy| one.is_none_or(|one| hierarchy.id == one))
}

/// As [`pids`], but only in these hierarchies.
///
/// # Errors
/// As [`pids`].
pub fn pids_in(
    files: &GroupFiles,
    groups: &[String],
    which: impl Fn(&Hierarchy) -> bool,
) -> Result<BTreeSet<i32>, CgroupError> {
    let mut pids = BTreeSet::new();
    for group in groups {
        for (_, dir) in files.directories(group).filter(|(hierarchy, _)| which(hierarchy)) {
            let path = dir.join("cgroup.procs");
            let text = match super::group_files::read_file(&path) {
                // A threaded cgroup does not list them; the processes are those of a cgroup above it.
                Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => continue,
                text => text?.unwrap_or_default(),
            };
            pids.extend(text.lines().filter_map(|line| line.trim().parse::<i32>().ok()));
        }
    }
    Ok(pids)
}

/// Whether a process is in `path` or below it in any hierarchy, by its own `/proc/<pid>/cgroup`. False if the
/// process has ended.
pub fn is_below(files: &GroupFiles, pid: i32, path: &str) -> bool {
    let file = format!("/proc/{pid}/cgroup");
    let Ok(Some(text)) = super::group_files::read_file(Path::new(&file)) else { return false };
    let memberships = parse_memberships(&text);
    files.layout().all().any(|hierarchy| {
        let top = kernel_path(hierarchy, path);
        let own = memberships.iter().filter(|m| m.id == hierarchy.id);
        own.into_iter().any(|m| {
            m.path.strip_prefix(&top).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ' ']))
        })
    })
}

/// The kernel's path of the cgroup that is `path` below a mount, which may show only a part of the tree.
fn kernel_path(hierarchy: &Hierarchy, path: &str) -> String {
    match hierarchy.mount_root.as_str() {
        "/" => path.to_owned(),
        root => format!("{root}{path}"),
    }
}
