//! One file of a cgroup: what it is, and reading it again and again through one open descriptor.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Controller;
use crate::view::Usage;

/// How often a file is worth a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cadence {
    /// At every reading: it counts.
    Hot,
    /// Limits and the like: they change when somebody writes them.
    Slow,
}

/// A file to read and what to do with its text.
#[derive(Debug)]
pub struct Spec {
    /// On whose hierarchy it is; `None` for the unified one.
    pub controller: Option<Controller>,
    pub name: &'static str,
    pub cadence: Cadence,
    pub parse: fn(&[u8], &mut Usage),
}

/// How many descriptors may be kept open. Beyond it files are opened for each reading.
#[derive(Debug, Clone)]
pub struct Budget(Arc<AtomicUsize>);

impl Budget {
    pub fn new(descriptors: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(descriptors)))
    }

    fn take(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
    }

    fn give_back(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What is known of a file.
#[derive(Debug)]
enum State {
    Unknown,
    Open(File),
    /// There, but beyond the budget.
    Passing,
    /// This cgroup has no such file (root, or a kernel without it).
    Absent,
}

/// One file, kept open if the budget allows.
#[derive(Debug)]
pub struct KeptFile {
    state: State,
    budget: Budget,
}

impl KeptFile {
    pub fn new(budget: &Budget) -> Self {
        Self { state: State::Unknown, budget: budget.clone() }
    }

    /// Reads the file of `dir` from its start into `buffer` (emptied first). False when there is none.
    ///
    /// # Errors
    /// As of open(2) and pread(2); ENODEV when the cgroup is gone.
    pub fn read(&mut self, dir: &Path, name: &str, buffer: &mut Vec<u8>) -> io::Result<bool> {
        buffer.clear();
        match &self.state {
            State::Absent => return Ok(false),
            State::Open(file) => return pread_all(file, buffer).map(|()| true),
            State::Unknown | State::Passing => {}
        }
        let file = match File::open(dir.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // The whole cgroup may be gone: then it is no file that this kernel lacks.
                if dir.exists() {
                    self.state = State::Absent;
                    return Ok(false);
                }
                return Err(io::Error::from_raw_os_error(libc::ENODEV));
            }
            Err(error) => return Err(error),
        };
        let result = pread_all(&file, buffer);
        if result.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EOPNOTSUPP)) {
            // Pressure files exist but answer so where PSI is off.
            self.state = State::Absent;
            return Ok(false);
        }
        result?;
        self.state = if matches!(self.state, State::Unknown) && self.budget.take() {
            State::Open(file)
        } else {
            State::Passing
        };
        Ok(true)
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if matches!(self.state, State::Open(_)) {
            self.budget.give_back();
        }
    }
}

/// First guess of a file's size: nearly all fit.
const CHUNK: usize = 4096;

fn pread_all(file: &File, buffer: &mut Vec<u8>) -> io::Result<()> {
    let mut filled = 0;
    loop {
        buffer.resize(filled + CHUNK, 0);
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => break,
            // A short read is the end: the kernel fills whole pages of such files.
            Ok(n) if n < CHUNK => {
                filled += n;
                break;
            }
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    buffer.truncate(filled);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_again_what_changed_with_or_without_budget() {
        for budget in [Budget::new(1), Budget::new(0)] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("f"), "1").unwrap();
            let mut file = KeptFile::new(&budget);
            let mut text = Vec::new();
            assert!(file.read(dir.path(), "f", &mut text).unwrap());
            assert_eq!(text, b"1");
            std::fs::write(dir.path().join("f"), "x".repeat(3 * CHUNK + 1)).unwrap();
            assert!(file.read(dir.path(), "f", &mut text).unwrap());
            assert_eq!(text.len(), 3 * CHUNK + 1);
        }
    }

    #[test]
    fn a_descriptor_goes_back_to_the_budget() {
        let budget = Budget::new(1);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "1").unwrap();
        let mut file = KeptFile::new(&budget);
        file.read(dir.path(), "f", &mut Vec::new()).unwrap();
        assert!(!budget.take());
        drop(file);
        assert!(budget.take());
    }

    #[test]
    fn a_file_that_is_not_there_is_no_error_but_a_cgroup_that_is_gone_is() {
        let budget = Budget::new(9);
        let dir = tempfile::tempdir().unwrap();
        let mut text = Vec::new();
        assert!(!KeptFile::new(&budget).read(dir.path(), "none", &mut text).unwrap());
        let gone = dir.path().join("gone");
        let error = KeptFile::new(&budget).read(&gone, "none", &mut text).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
