//! Writes the files of a volume so that a container sees either all old or all new ones (kubelet
//! pkg/volume/util/atomic_writer.go).
//!
//! The files are in a directory of their own, named by the time of the writing; the link `..data` leads
//! there, and a link for each first part of a path leads through it:
//!
//! ```text
//! ..2026_11_23_10_00_00.123456789/ca.crt
//! ..data -> ..2026_11_23_10_00_00.123456789
//! ca.crt -> ..data/ca.crt
//! ```
//!
//! Only the replacement of `..data`, one rename, changes what is seen. Ended at any other moment, the volume
//! has its old content or its new one, and the next call completes or removes the rest.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown, lchown, symlink,
};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

use super::VolumeError;
use super::payload::{FileProjection, Payload};

/// The link to the directory with the present files.
const DATA: &str = "..data";
/// The same before it replaces the one that is there.
const NEW_DATA: &str = "..data_tmp";
/// Where a link is made before it replaces what has its name.
const NEW_LINK: &str = "..link_tmp";

/// Something that [`write()`] does; a test ends it before one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    MakeDirectory,
    WriteFile,
    MakeDataLink,
    ReplaceData,
    MakeLink,
    RemoveLink,
    RemoveDirectory,
}

/// Whether the volume has been written: there is something that containers can see.
pub(super) fn is_written(dir: &Path) -> bool {
    fs::read_dir(dir.join(DATA)).is_ok()
}

/// Makes the files of the volume those of `payload`. With `group` they belong to that group, which may read
/// them (kubelet `SetVolumeOwnership` for read-only volumes). Nothing is written if they are so already.
/// Returns whether containers see other content now.
///
/// # Errors
/// A path leads out of the volume, or a system call failed: what was seen before is seen still.
pub(super) fn write(dir: &Path, payload: &Payload, group: Option<u32>) -> Result<bool, VolumeError> {
    write_unless(dir, payload, group, &mut |_| Ok(()))
}

/// As [`write()`], but `before` is called before each step and may end it there.
pub(super) fn write_unless(
    dir: &Path,
    payload: &Payload,
    group: Option<u32>,
    before: &mut dyn FnMut(Step) -> io::Result<()>,
) -> Result<bool, VolumeError> {
    for path in payload.keys() {
        let mut parts = Path::new(path).components();
        let is_inside = !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || path.starts_with("..") {
            return Err(VolumeError::Escape { root: dir.to_owned(), path: dir.join(path) });
        }
    }
    let mut writer = Writer { dir, group, before };
    let present = fs::read_link(dir.join(DATA)).ok();
    let changed = !present.as_ref().is_some_and(|present| is_same(&dir.join(present), payload, group));
    let now = match present {
        Some(present) if !changed => present,
        _ => writer.replace(payload)?,
    };
    let names: BTreeSet<&Path> =
        payload.keys().filter_map(|path| Path::new(path).iter().next().map(Path::new)).collect();
    writer.link(&names)?;
    writer.tidy(&names, &now)?;
    Ok(changed)
}

struct Writer<'a> {
    dir: &'a Path,
    group: Option<u32>,
    before: &'a mut dyn FnMut(Step) -> io::Result<()>,
}

impl Writer<'_> {
    fn step<T>(
        &mut self,
        step: Step,
        call: &'static str,
        path: &Path,
        act: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, VolumeError> {
        (self.before)(step).and_then(|()| act()).map_err(VolumeError::file(call, path))
    }

    /// Writes the files into a new directory and lets `..data` lead there. Returns the directory's name.
    fn replace(&mut self, payload: &Payload) -> Result<PathBuf, VolumeError> {
        let name = new_name(self.dir);
        let new = self.dir.join(&name);
        let group = self.group;
        self.step(Step::MakeDirectory, "create", &new, || directory(&new, group))?;
        for (path, file) in payload {
            let path = new.join(path);
            let mut missing: Vec<&Path> =
                path.ancestors().skip(1).take_while(|parent| !parent.exists()).collect();
            while let Some(parent) = missing.pop() {
                self.step(Step::MakeDirectory, "create", parent, || directory(parent, group))?;
            }
            self.step(Step::WriteFile, "write", &path, || write_file(&path, file, group))?;
        }
        let (link, data) = (self.dir.join(NEW_DATA), self.dir.join(DATA));
        self.step(Step::MakeDataLink, "create", &link, || {
            let _ = fs::remove_file(&link);
            symlink(&name, &link)
        })?;
        self.step(Step::ReplaceData, "rename", &link, || fs::rename(&link, &data))?;
        Ok(name)
    }

    /// Makes the links that are missing.
    fn link(&mut self, names: &BTreeSet<&Path>) -> Result<(), VolumeError> {
        for name in names {
            let (link, target) = (self.dir.join(name), Path::new(DATA).join(name));
            if fs::read_link(&link).is_ok_and(|found| found == target) {
                continue;
            }
            let new = self.dir.join(NEW_LINK);
            self.step(Step::MakeLink, "link", &link, || {
                let _ = fs::remove_file(&new);
                symlink(&target, &new)?;
                // A directory of an earlier version of this agent.
                if fs::symlink_metadata(&link).is_ok_and(|found| found.is_dir()) {
                    fs::remove_dir_all(&link)?;
                }
                fs::rename(&new, &link)
            })?;
        }
        Ok(())
    }

    /// Removes links and directories that lead nowhere any more.
    fn tidy(&mut self, names: &BTreeSet<&Path>, now: &Path) -> Result<(), VolumeError> {
        let entries = fs::read_dir(self.dir).map_err(VolumeError::file("list", self.dir))?;
        for entry in entries {
            let entry = entry.map_err(VolumeError::file("list", self.dir))?;
            let (name, path) = (PathBuf::from(entry.file_name()), entry.path());
            if name == Path::new(DATA) || name == now || names.contains(name.as_path()) {
                continue;
            }
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && name.to_string_lossy().starts_with("..") {
                self.step(Step::RemoveDirectory, "remove", &path, || fs::remove_dir_all(&path))?;
            } else if !is_dir {
                self.step(Step::RemoveLink, "remove", &path, || fs::remove_file(&path))?;
            }
        }
        Ok(())
    }
}

/// A name that is not there: the time, as by a kubelet.
fn new_name(dir: &Path) -> PathBuf {
    let name = |number: u32| {
        let time = Timestamp::now().strftime("..%Y_%m_%d_%H_%M_%S.%9f").to_string();
        if number == 0 { time } else { format!("{time}_{number}") }
    };
    let mut names = (0..).map(name).map(PathBuf::from);
    names.find(|name| fs::symlink_metadata(dir.join(name)).is_err()).unwrap_or_default()
}

/// With a group: it may read and enter, and owns what is made there.
fn directory_mode(group: Option<u32>) -> u32 {
    if group.is_some() { 0o2755 } else { 0o755 }
}

fn directory(path: &Path, group: Option<u32>) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o755).create(path)?;
    if group.is_some() {
        lchown(path, None, group)?;
    }
    // Set explicitly, because the umask was applied to the mode.
    fs::set_permissions(path, fs::Permissions::from_mode(directory_mode(group)))
}

fn file_mode(file: &FileProjection, group: Option<u32>) -> u32 {
    file.mode | if group.is_some() { 0o440 } else { 0 }
}

fn write_file(path: &Path, file: &FileProjection, group: Option<u32>) -> io::Result<()> {
    let mut open = fs::OpenOptions::new();
    open.write(true).create_new(true).mode(0o600);
    let mut opened = open.open(path)?;
    opened.write_all(&file.data)?;
    if file.user.is_some() || group.is_some() {
        fchown(&opened, file.user, group)?;
    }
    opened.set_permissions(fs::Permissions::from_mode(file_mode(file, group)))
}

/// Whether a directory has exactly these files, with their modes and owners.
fn is_same(dir: &Path, payload: &Payload, group: Option<u32>) -> bool {
    let same = payload.iter().all(|(path, file)| {
        let path = dir.join(path);
        let Ok(found) = fs::symlink_metadata(&path) else { return false };
        found.is_file()
            && found.mode() & 0o7777 == file_mode(file, group)
            && group.is_none_or(|group| found.gid() == group)
            && file.user.is_none_or(|user| found.uid() == user)
            && found.len() == file.data.len() as u64
            && fs::read(&path).is_ok_and(|data| data == file.data)
    });
    same && count(dir).is_ok_and(|count| count == payload.len())
}

/// How many files a directory has, those of the directories in it included.
fn count(dir: &Path) -> io::Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        files += if entry.file_type()?.is_dir() { count(&entry.path())? } else { 1 };
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
