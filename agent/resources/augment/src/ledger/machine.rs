//! The files of cgroups and processes, so that a value never reaches another one of the same name.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstat, open, openat};

use crate::wanted::Place;
use nodewarden_machine::cgroup::limit_changes;

/// Reads and writes values. Every call opens the directory, and reads or writes in that very directory.
pub trait Machine {
    /// The value, without white space at its end, and the identity of its cgroup or process. `None` if there
    /// is none.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, place: &Place) -> io::Result<Option<(String, u64)>>;

    /// Writes the value if the cgroup or process has this identity. False if there is none.
    ///
    /// # Errors
    /// The kernel refuses it.
    fn write(&self, place: &Place, identity: u64, value: &str) -> io::Result<bool>;

    /// The ledger is on disk under its temporary name, and takes its name next: where a test ends the
    /// process.
    fn recording(&self) {}
}

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Files;

impl Machine for Files {
    fn read(&self, place: &Place) -> io::Result<Option<(String, u64)>> {
        gone_is_none(read(place))
    }

    fn write(&self, place: &Place, identity: u64, value: &str) -> io::Result<bool> {
        Ok(gone_is_none(write(place, identity, value))? == Some(true))
    }
}

fn read(place: &Place) -> io::Result<(String, u64)> {
    let directory = directory(&place.directory)?;
    let identity = identity(&directory, &place.directory)?;
    let file =
        openat(&directory, &place.file, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?;
    let mut text = String::new();
    File::from(file).read_to_string(&mut text)?;
    text.truncate(text.trim_end().len());
    Ok((text, identity))
}

fn write(place: &Place, expected: u64, value: &str) -> io::Result<bool> {
    let directory = directory(&place.directory)?;
    if identity(&directory, &place.directory)? != expected {
        return Ok(false);
    }
    // A cgroup that is removed from here on has no files in this directory, whatever is made under its name.
    let file =
        openat(&directory, &place.file, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?;
    let written = File::from(file).write_all(value.as_bytes());
    limit_changes::record();
    written.map(|()| true)
}

fn directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(open(path, flags, Mode::empty())?))
}

/// The number of the directory, which is the cgroup's id; when a process started, since those numbers are
/// used again.
fn identity(directory: &File, path: &Path) -> io::Result<u64> {
    if !path.starts_with("/proc") {
        return Ok(fstat(directory)?.st_ino);
    }
    let file = openat(directory, "stat", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    File::from(file).read_to_string(&mut text)?;
    started(&text).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no start time in its stat"))
}

/// The field `starttime` (proc_pid_stat(5)), the 22nd; the command before it may contain anything.
pub fn started(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

/// The cgroup or process, or the file in it, does not exist, or ends while it is read.
fn gone_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) => match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::NOENT | rustix::io::Errno::NODEV | rustix::io::Errno::SRCH) => Ok(None),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_process_is_read_whatever_it_is_called() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4242 1 2";
        assert_eq!(started(stat), Some(4242));
        assert_eq!(started("7 (a) S 1"), None);
    }

    #[test]
    fn a_directory_made_again_is_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().join("group");
        let place = Place::new(&group, "value");
        let make = || {
            std::fs::create_dir(&group).unwrap();
            std::fs::write(group.join("value"), "1\n").unwrap();
        };
        assert_eq!(Files.read(&place).unwrap(), None);
        make();
        let (value, identity) = Files.read(&place).unwrap().unwrap();
        assert_eq!(value, "1");
        assert!(Files.write(&place, identity, "2").unwrap());
        assert!(!Files.write(&place, identity + 1, "3").unwrap(), "another identity");
        assert_eq!(Files.read(&place).unwrap().unwrap().0, "2");
        std::fs::remove_dir_all(&group).unwrap();
        assert!(!Files.write(&place, identity, "4").unwrap());
    }

    #[test]
    fn a_process_is_identified_by_its_start() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let place = Place::new(Path::new(&format!("/proc/{}", child.id())), "oom_score_adj");
        let (score, identity) = Files.read(&place).unwrap().unwrap();
        assert!(score.parse::<i32>().is_ok(), "{score}");
        assert!(Files.write(&place, identity, "321").unwrap());
        assert!(!Files.write(&place, identity - 1, "322").unwrap());
        assert_eq!(Files.read(&place).unwrap().unwrap().0, "321");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(Files.read(&place).unwrap(), None);
    }
}
