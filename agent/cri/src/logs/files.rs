//! The log files of a container: `<n>.log` for its nth run, and `<n>.log.<time>` for rotated files
//! (`pkg/kubelet/logs/container_log_manager.go`).

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::LogError;

/// An existing log file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub path: PathBuf,
    /// Device and inode, which identify a file after it was renamed.
    pub id: (u64, u64),
    /// Time of the last write.
    pub written: SystemTime,
}

/// The runs of a container that have a log in its directory, newest first, each with its log's path. Empty if the
/// directory does not exist.
pub fn runs(directory: &Path) -> Result<Vec<(u32, PathBuf)>, LogError> {
    let mut found: Vec<(u32, PathBuf)> = names(directory)?
        .into_iter()
        .filter_map(|name| Some((name.strip_suffix(".log")?.parse().ok()?, directory.join(&name))))
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found)
}

/// The files of one run's log, oldest first and `path` last if it exists. Compressed ones are left out.
pub(super) fn chain(path: &Path) -> Result<Vec<Found>, LogError> {
    let (directory, name) =
        (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or(OsStr::new("")));
    let prefix = format!("{}.", name.to_string_lossy());
    let mut rotated: Vec<String> = names(directory)?
        .into_iter()
        .filter(|name| name.strip_prefix(&prefix).is_some_and(is_time))
        .collect();
    // The times sort lexically.
    rotated.sort_unstable();
    let paths = rotated.into_iter().map(|name| directory.join(name)).chain([path.to_owned()]);
    let mut found = Vec::new();
    for path in paths {
        match fs::metadata(&path) {
            Ok(m) => {
                let written = m.modified().map_err(LogError::at("stat", &path))?;
                found.push(Found { id: (m.dev(), m.ino()), written, path });
            }
            // Rotated or removed meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(LogError::at("stat", &path)(e)),
        }
    }
    Ok(found)
}

/// Whether the text has the form `20261121-040001`.
pub(super) fn is_time(text: &str) -> bool {
    text.len() == 15
        && text.bytes().enumerate().all(|(i, b)| if i == 8 { b == b'-' } else { b.is_ascii_digit() })
}

/// The file names in UTF-8; others cannot be log files.
pub(super) fn names(directory: &Path) -> Result<Vec<String>, LogError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(LogError::at("open", directory)(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(LogError::at("getdents", directory))?;
        found.extend(entry.file_name().into_string());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_rotated_files() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(runs(&dir.path().join("none")).unwrap(), []);
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
            fs::write(dir.path().join(name), name).unwrap();
        }
        let found: Vec<u32> = runs(dir.path()).unwrap().into_iter().map(|(n, _)| n).collect();
        assert_eq!(found, [10, 9, 0]);
        let names: Vec<String> = chain(&dir.path().join("10.log"))
            .unwrap()
            .iter()
            .map(|found| found.path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["10.log.20261121-040001", "10.log.20261121-040002", "10.log"]);
        assert_eq!(chain(&dir.path().join("3.log")).unwrap(), []);
    }
}
