//! The journal's files on disk: appends whole lines, rotates files, and leaves whole lines when a write
//! fails.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::error::{DiskError, JournalError};
use super::{Limits, files};

/// Reserves the journal's directory for this process until it is dropped.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its lock")] Flock<File>);

/// Creates the directory and locks it. `None` if it cannot be created or locked (read-only, full disk): the
/// journal is then only in memory until it can.
///
/// # Errors
/// When another process has locked it.
pub fn lock(dir: &Path) -> Result<Option<Lock>, JournalError> {
    let _ = make_dir(dir);
    let Ok(file) = File::open(dir) else { return Ok(None) };
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(Lock(lock))),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Err(JournalError::InUse { dir: dir.to_owned() }),
        Err(_) => Ok(None),
    }
}

fn make_dir(dir: &Path) -> Result<(), DiskError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(DiskError::at("mkdir", dir))
}

/// The file being written.
#[derive(Debug)]
pub struct Disk {
    dir: PathBuf,
    path: PathBuf,
    file_bytes: u64,
    files: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// Its length.
    len: u64,
    /// Whether a failed write left part of a line at the end that could not be cut off.
    torn: bool,
}

/// How many lines a write has written.
#[derive(Debug)]
pub struct Written {
    /// Number of whole lines.
    pub lines: usize,
    /// Why the rest was not written; `None` if there is no rest.
    pub error: Option<DiskError>,
}

impl Disk {
    /// The files in `dir`, with these limits. Opens nothing yet.
    pub fn new(dir: &Path, limits: &Limits) -> Self {
        Self {
            dir: dir.to_owned(),
            path: dir.join(files::name(0)),
            file_bytes: limits.file_bytes,
            files: limits.files.max(1),
            open: None,
        }
    }

    /// Appends lines, each with its line end, rotating in between as needed. A line longer than a file may be
    /// is left out but counted as written.
    pub fn append(&mut self, lines: &[Vec<u8>]) -> Written {
        let mut done = 0;
        while done < lines.len() {
            match self.append_some(&lines[done..]) {
                Ok(n) => done += n,
                Err((n, error)) => return Written { lines: done + n, error: Some(error) },
            }
        }
        Written { lines: done, error: None }
    }

    /// Appends as many lines as the current file has room for, at least one.
    fn append_some(&mut self, lines: &[Vec<u8>]) -> Result<usize, (usize, DiskError)> {
        let first = lines[0].len() as u64;
        if first > self.file_bytes {
            tracing::warn!(bytes = first, "journal: an event longer than a whole file is not written");
            return Ok(1);
        }
        let len = self.open().map_err(|e| (0, e))?.len;
        if len > 0 && len + first > self.file_bytes {
            self.rotate().map_err(|e| (0, e))?;
        }
        let (path, limit) = (self.path.clone(), self.file_bytes);
        let open = self.open().map_err(|e| (0, e))?;
        let mut room = limit.saturating_sub(open.len);
        let fitting = lines.iter().take_while(|l| {
            let fits = l.len() as u64 <= room;
            room = room.saturating_sub(l.len() as u64);
            fits
        });
        let batch: Vec<&Vec<u8>> = fitting.collect();
        open.write(&batch, &path)?;
        Ok(batch.len())
    }

    fn open(&mut self) -> Result<&mut Open, DiskError> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                make_dir(&self.dir)?;
                let path = &self.path;
                let file = OpenOptions::new()
                    .append(true)
                    .create(true)
                    .mode(0o600)
                    .open(path)
                    .map_err(DiskError::at("open", path))?;
                let len = file.metadata().map_err(DiskError::at("stat", path))?.len();
                self.drop_surplus();
                Open { file, len, torn: false }
            }
        };
        Ok(self.open.insert(open))
    }

    /// Removes files beyond the maximum number, after a start with a lower one.
    fn drop_surplus(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let surplus = entry.file_name().to_str().and_then(files::number).is_some_and(|n| n >= self.files);
            if surplus && let Err(e) = fs::remove_file(entry.path()) {
                tracing::warn!("{}", DiskError::at("unlink", &entry.path())(e));
            }
        }
    }

    fn rotate(&mut self) -> Result<(), DiskError> {
        self.sync()?;
        let (drop, renames) = files::rotation(&self.dir, self.files);
        absent_is_fine(fs::remove_file(&drop)).map_err(DiskError::at("unlink", &drop))?;
        for (from, to) in &renames {
            absent_is_fine(fs::rename(from, to)).map_err(DiskError::at("rename", from))?;
        }
        self.open = None;
        Ok(())
    }

    /// Waits until everything is on the device (fdatasync(2)).
    pub fn sync(&mut self) -> Result<(), DiskError> {
        match &self.open {
            Some(open) => open.file.sync_data().map_err(DiskError::at("fdatasync", &self.path)),
            None => Ok(()),
        }
    }
}

impl Open {
    /// Writes the lines in one call; on failure keeps those that were written whole and cuts off the rest.
    fn write(&mut self, lines: &[&Vec<u8>], path: &Path) -> Result<(), (usize, DiskError)> {
        let mut bytes: Vec<u8> = Vec::with_capacity(lines.iter().map(|l| l.len()).sum::<usize>() + 1);
        let mend = usize::from(self.torn);
        if self.torn {
            bytes.push(b'\n');
        }
        lines.iter().for_each(|l| bytes.extend_from_slice(l));
        let mut written = 0;
        let error = loop {
            match self.file.write(&bytes[written..]) {
                Ok(0) => break ErrorKind::WriteZero.into(),
                Ok(n) => written += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => break e,
            }
            if written == bytes.len() {
                self.len += written as u64;
                self.torn = false;
                return Ok(());
            }
        };
        let (mut whole, mut end) = (0, mend.min(written));
        for line in lines {
            if end + line.len() > written {
                break;
            }
            end += line.len();
            whole += 1;
        }
        self.len += end as u64;
        if written > end {
            self.torn = self.file.set_len(self.len).is_err();
            if self.torn {
                self.len += (written - end) as u64;
            }
        } else if written > 0 {
            self.torn = false;
        }
        Err((whole, DiskError::at("write", path)(error)))
    }
}

fn absent_is_fine(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(file_bytes: u64, files: u32) -> Limits {
        Limits { file_bytes, files, ..Limits::default() }
    }

    fn lines(range: std::ops::Range<u32>) -> Vec<Vec<u8>> {
        range.map(|n| format!("{n:09}\n").into_bytes()).collect()
    }

    fn content(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .filter_map(|e| files::number(e.unwrap().file_name().to_str().unwrap()))
            .collect();
        names.sort_unstable_by(|a, b| b.cmp(a));
        names.iter().map(|n| fs::read_to_string(dir.join(files::name(*n))).unwrap()).collect()
    }

    #[test]
    fn rotation_keeps_the_newest_within_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = Disk::new(dir.path(), &limits(35, 3)); // three lines of ten bytes per file
        assert_eq!(disk.append(&lines(0..11)).lines, 11);
        let expected = |r: std::ops::Range<u32>| String::from_utf8(lines(r).concat()).unwrap();
        assert_eq!(content(dir.path()), [expected(3..6), expected(6..9), expected(9..11)]);
        // A new start appends to the file, and with a lower maximum removes surplus files.
        let mut disk = Disk::new(dir.path(), &limits(35, 2));
        assert_eq!(disk.append(&lines(11..13)).lines, 2);
        assert_eq!(content(dir.path()), [expected(9..12), expected(12..13)]);
        let mut disk = Disk::new(dir.path(), &limits(35, 1));
        disk.append(&lines(13..20));
        assert_eq!(content(dir.path()), [expected(18..20)]);
    }

    #[test]
    fn a_line_longer_than_a_file_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut disk = Disk::new(dir.path(), &limits(20, 2));
        let written = disk.append(&[vec![b'x'; 21], b"short\n".to_vec()]);
        assert_eq!((written.lines, written.error.is_none()), (2, true));
        assert_eq!(content(dir.path()), ["short\n"]);
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error_until_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let blocked = dir.path().join("file");
        fs::write(&blocked, "").unwrap();
        let mut disk = Disk::new(&blocked.join("journal"), &limits(100, 2));
        let written = disk.append(&lines(0..1));
        assert_eq!(written.lines, 0);
        assert!(written.error.unwrap().to_string().starts_with("journal: mkdir "));
        fs::remove_file(&blocked).unwrap();
        assert_eq!(disk.append(&lines(0..1)).lines, 1);
    }

    #[test]
    fn a_directory_is_locked_by_one_agent() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap().unwrap();
        assert!(matches!(lock(dir.path()), Err(JournalError::InUse { .. })));
        drop(held);
        assert!(lock(dir.path()).unwrap().is_some());
    }
}
