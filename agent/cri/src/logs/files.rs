//! The log files of a container: `<n>.log` for its nth run, and `<n>.log.<time>` for rotated files
//! (`pkg/kubelet/logs/container_log_manager.go`).

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::{Duration, SystemTime};

use nix::sys::stat::FileStat;

use super::place::{LogDir, is_regular};
use super::{LogError, LogPath};

/// An existing log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub name: OsString,
    /// Device and inode, which identify a file after it was renamed.
    pub id: (u64, u64),
    /// Time of the last write.
    pub written: SystemTime,
}

/// The runs that have a log in the directory of a container's logs, newest first, each with the place of its
/// log. Empty if the directory does not exist.
///
/// `pod_logs` is the pod's log directory, `container` the name of the container.
pub fn runs(pod_logs: &Path, container: &str) -> Result<Vec<(u32, LogPath)>, LogError> {
    let any = LogPath::new(pod_logs, Path::new(container).join("any"));
    let number = |name: &str| -> Option<u32> { name.strip_suffix(".log")?.parse().ok() };
    let names = match any.directory() {
        Err(error) if error.is_missing() => Vec::new(),
        directory => directory?.names(|name| number(name).is_some())?,
    };
    let run = |name: String| Some((number(&name)?, any.beside(OsStr::new(&name))));
    let mut found: Vec<(u32, LogPath)> = names.into_iter().filter_map(run).collect();
    found.sort_unstable_by_key(|(run, _)| std::cmp::Reverse(*run));
    Ok(found)
}

/// The files of one run's log, oldest first and the one being written last, if it exists. Compressed ones are
/// left out, and rotated ones that are no regular files. Nothing if the directory does not exist.
pub(super) fn chain(path: &LogPath) -> Result<Option<(LogDir, Vec<Found>)>, LogError> {
    let directory = match path.directory() {
        Err(error) if error.is_missing() => return Ok(None),
        directory => directory?,
    };
    let prefix = format!("{}.", path.name().to_string_lossy());
    let mut rotated = directory.names(|name| name.strip_prefix(&prefix).is_some_and(is_time))?;
    // The times sort lexically.
    rotated.sort_unstable();
    let names = rotated.into_iter().map(OsString::from).chain([path.name().to_owned()]);
    let mut found = Vec::new();
    for name in names {
        // Rotated or removed meanwhile, or put there by another program.
        let Some(facts) = directory.stat(&name)? else { continue };
        if is_regular(&facts) || name == path.name() {
            found.push(Found { id: identity(&facts), written: written(&facts), name });
        }
    }
    Ok(Some((directory, found)))
}

/// Device and inode.
pub(super) fn identity(facts: &FileStat) -> (u64, u64) {
    (facts.st_dev, facts.st_ino)
}

/// Time of the last write.
pub(super) fn written(facts: &FileStat) -> SystemTime {
    let since = u64::try_from(facts.st_mtime).unwrap_or(0);
    SystemTime::UNIX_EPOCH + Duration::new(since, u32::try_from(facts.st_mtime_nsec).unwrap_or(0))
}

/// Whether the text has the form `20261121-040001`.
pub(super) fn is_time(text: &str) -> bool {
    text.len() == 15
        && text.bytes().enumerate().all(|(i, b)| if i == 8 { b == b'-' } else { b.is_ascii_digit() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn runs_and_rotated_files() {
        let logs = tempfile::tempdir().unwrap();
        assert_eq!(runs(logs.path(), "web").unwrap(), []);
        let dir = logs.path().join("web");
        fs::create_dir(&dir).unwrap();
        for name in [
            "0.log",
            "9.log",
            "10.log",
            "x.log",
            "10.log.20261121-040002",
            "10.log.20261121-040001",
            "10.log.20261120-040001.gz",
            "10.log.20261120-040001.tmp",
            "10.log.old",
        ] {
            fs::write(dir.join(name), name).unwrap();
        }
        let found: Vec<u32> = runs(logs.path(), "web").unwrap().into_iter().map(|(n, _)| n).collect();
        assert_eq!(found, [10, 9, 0]);
        let names = |log: &str| -> Vec<String> {
            let (_, found) = chain(&LogPath::new(logs.path(), format!("web/{log}"))).unwrap().unwrap();
            found.iter().map(|found| found.name.to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names("10.log"), ["10.log.20261121-040001", "10.log.20261121-040002", "10.log"]);
        assert_eq!(names("3.log"), [""; 0]);
    }
}
