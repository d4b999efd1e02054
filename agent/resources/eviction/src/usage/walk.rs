//! Disk use of a directory, counted as du(1) does, in as many turns as it takes.
//!
//! The content may change meanwhile, also by a pod that tries to have other files read or to make the agent
//! large: everything is opened relative to the directory without following links; directories are read in
//! pieces, and what is kept of them is bounded ([`Budget`]).
//!
//! Two descriptors are open, the top's and that of the directory being read. From a directory the walk goes
//! up by `..` if that still is the directory it came from, else from the top by the names it kept.

use std::collections::HashSet;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, SeekFrom, open, openat, seek};
use rustix::io::Errno;

use super::budget::{Budget, Share};
use super::file_stat::FileStat;
use super::names::Names;
use crate::DiskUse;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The time is looked at after so many files.
const BATCH: u32 = 16;
/// Levels that every walk may have open, whatever other walks have.
const OWN_FRAMES: usize = 4 << 10;
/// Levels that one walk may have open. What is deeper is not counted.
const MOST_FRAMES: usize = 64 << 10;
/// When so many bytes of names of subdirectories of one directory are pending, these are counted before the
/// directory is read on.
const NAMES_AT_ONCE: usize = 64 << 10;
/// Names of open directories are kept, for the way back from the top, up to so many bytes.
const NAMES_OF_OPEN: usize = 256 << 10;
/// How often a walk that lost its way back goes there from the top by names; after that it gives up what it
/// cannot reach.
const MOST_RETURNS: u32 = 64;

/// Bytes of the buffer that [`Walk::run`] reads directories into.
pub(super) const BUFFER: usize = 32 << 10;

/// Whether a walk has reached its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Finished,
    /// The time was over; [`Walk::run`] continues where it stopped.
    TimeOver,
}

/// A directory that is being counted.
#[derive(Debug)]
pub(super) struct Walk {
    top: OwnedFd,
    /// The directory of the last frame.
    here: OwnedFd,
    device: u64,
    /// Directories, as device and inode, that are left out.
    skip: Vec<(u64, u64)>,
    /// The way from the top to `here`; empty at the end.
    frames: Vec<Frame>,
    /// Per frame the name of its directory (unless `nameless`), then its pending subdirectories.
    names: Names,
    counted: Counted,
    frames_share: Share,
    returns: u32,
    /// Something could not be counted.
    partial: bool,
}

/// A directory on the way from the top to the one being read.
#[derive(Debug)]
struct Frame {
    inode: u64,
    /// Position in the directory behind the last entry that was counted.
    cookie: u64,
    /// Where the names of its pending subdirectories begin.
    names: u32,
    /// The descriptor is not at `cookie`.
    seek: bool,
    /// It was read to its end.
    read: bool,
    /// Its own name was not kept.
    nameless: bool,
}

impl Walk {
    /// Starts at `top`, which is counted itself. `skip` lists directories below that are left out, as device
    /// and inode. `None` if `top` does not exist or is not a directory.
    ///
    /// # Errors
    /// `top` cannot be opened.
    pub fn start(top: &Path, skip: Vec<(u64, u64)>, budget: &Budget) -> io::Result<Option<Self>> {
        if !top.is_absolute() {
            return Ok(None);
        }
        let top = match open(top, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            top => top?,
        };
        let Some(found) = FileStat::at(&top, c"")? else { return Ok(None) };
        let here = openat(&top, c".", DIRECTORY, Mode::empty())?;
        let mut walk = Self {
            top,
            here,
            device: found.device,
            skip,
            frames: vec![Frame::new(found.inode, 0)],
            names: Names::new(&budget.names),
            counted: Counted::new(budget),
            frames_share: Share::of(&budget.frames),
            returns: 0,
            partial: false,
        };
        walk.counted.add(&found);
        Ok(Some(walk))
    }

    /// Counts on until `until`, at least one entry. `buffer` has [`BUFFER`] bytes.
    pub fn run(&mut self, until: Instant, buffer: &mut [MaybeUninit<u8>]) -> Progress {
        loop {
            let Some(frame) = self.frames.last() else { return Progress::Finished };
            if self.names.end() > frame.names as usize {
                self.enter();
            } else if frame.read {
                self.leave();
            } else {
                self.read(until, buffer);
            }
            if Instant::now() >= until && !self.frames.is_empty() {
                return Progress::TimeOver;
            }
        }
    }

    /// What was counted by now. Complete at the end, unless something could not be counted.
    pub fn used(&self) -> DiskUse {
        let complete = self.frames.is_empty() && !self.partial;
        DiskUse {
            bytes: self.counted.bytes.whole(),
            inodes: self.counted.inodes.whole(),
            complete,
            uncountable: false,
            device: Some(self.device),
        }
    }

    /// Reads on in the directory at hand.
    fn read(&mut self, until: Instant, buffer: &mut [MaybeUninit<u8>]) {
        let Some(frame) = self.frames.last_mut() else { return };
        if frame.seek {
            if seek(&self.here, SeekFrom::Start(frame.cookie)).is_err() {
                self.partial = true;
                frame.read = true;
                return;
            }
            frame.seek = false;
        }
        let start = frame.names as usize;
        let mut entries = RawDir::new(&self.here, buffer);
        let mut seen = 0;
        loop {
            // Between two pieces, nothing is read that would have to be read again.
            let between = entries.is_buffer_empty();
            if seen > 0 && seen % BATCH == 0 && Instant::now() >= until
                || between && self.names.end() - start > NAMES_AT_ONCE
            {
                frame.seek = !between;
                return;
            }
            let entry = match entries.next() {
                None | Some(Err(Errno::NOENT)) => {
                    frame.read = true;
                    return;
                }
                Some(Err(_)) => {
                    self.partial = true;
                    frame.read = true;
                    return;
                }
                Some(Ok(entry)) => entry,
            };
            seen += 1;
            let (name, next) = (entry.file_name(), entry.next_entry_cookie());
            if !matches!(name.to_bytes(), b"." | b"..") {
                let found = match entry.file_type() {
                    FileType::Directory | FileType::Unknown => {
                        FileStat::of_entry(&self.here, name, self.device)
                    }
                    _ => FileStat::of_file(&self.here, name),
                };
                match found {
                    Ok(Some(found)) if found.mounted || found.device != self.device => {}
                    Ok(Some(found)) if found.directory => {
                        if !self.skip.contains(&(found.device, found.inode)) {
                            let none = self.names.end() == start;
                            if !self.names.push(name, none) {
                                // This entry is read again when those before it are done.
                                frame.seek = true;
                                return;
                            }
                            self.counted.add(&found);
                        }
                    }
                    Ok(Some(found)) => self.counted.add(&found),
                    Ok(None) => {}
                    Err(_) => self.partial = true,
                }
            }
            frame.cookie = next;
        }
    }

    /// Opens the last pending subdirectory.
    fn enter(&mut self) {
        let depth = self.frames.len();
        let Some(frame) = self.frames.last_mut() else { return };
        let start = frame.names as usize;
        let Some(name) = self.names.last(start) else { return };
        // Something may have been mounted there meanwhile, which must not be opened.
        let own = FileStat::of_entry(&self.here, name, self.device);
        let opened = match own {
            Ok(Some(found)) if found.mounted || found.device != self.device => Err(Errno::NOENT),
            Ok(_) => openat(&self.here, name, DIRECTORY, Mode::empty()),
            Err(error) => Err(error),
        };
        let found = opened.and_then(|fd| Ok(FileStat::at(&fd, c"")?.map(|found| (fd, found))));
        let (fd, found) = match found {
            Ok(Some((fd, found))) if !found.mounted && found.device == self.device => (fd, found),
            // Removed or replaced meanwhile.
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return self.names.pop(start),
            Err(_) => {
                self.partial = true;
                return self.names.pop(start);
            }
        };
        if depth >= MOST_FRAMES || depth >= OWN_FRAMES && !self.frames_share.take(1) {
            self.partial = true;
            return self.names.pop(start);
        }
        frame.seek = !frame.read;
        let nameless = self.names.end() > NAMES_OF_OPEN;
        if nameless {
            self.names.pop(start);
        }
        self.frames.push(Frame { nameless, ..Frame::new(found.inode, self.names.end()) });
        self.here = fd;
    }

    /// Goes back to the directory above.
    fn leave(&mut self) {
        let Some(done) = self.frames.pop() else { return };
        self.frames_share.keep(self.frames.len().saturating_sub(OWN_FRAMES));
        self.names.truncate(done.names as usize);
        let Some(above) = self.frames.last() else { return };
        if !done.nameless {
            self.names.pop(above.names as usize);
        }
        match openat(&self.here, c"..", DIRECTORY, Mode::empty()) {
            Ok(fd) if self.is(&fd, above.inode) => self.here = fd,
            // It was moved.
            _ => self.go_back_from_top(),
        }
    }

    /// Goes from the top to the last frame by the names that were kept, as far as they lead to the same
    /// directories. What is pending in the others is given up.
    fn go_back_from_top(&mut self) {
        self.returns += 1;
        let Ok(mut fd) = openat(&self.top, c".", DIRECTORY, Mode::empty()) else {
            self.partial = true;
            return self.frames.clear();
        };
        let (mut reached, most) = (1, if self.returns > MOST_RETURNS { 1 } else { self.frames.len() });
        while let Some(frame) = self.frames.get(reached).filter(|frame| reached < most && !frame.nameless) {
            let Some(name) = self.names.before(frame.names as usize) else { break };
            match openat(&fd, name, DIRECTORY, Mode::empty()) {
                Ok(next) if self.is(&next, frame.inode) => fd = next,
                _ => break,
            }
            reached += 1;
        }
        if let Some(lost) = self.frames.get(reached) {
            self.partial = true;
            let (end, nameless) = (lost.names as usize, lost.nameless);
            self.names.truncate(end);
            self.frames.truncate(reached);
            if let Some(frame) = self.frames.last().filter(|_| !nameless) {
                self.names.pop(frame.names as usize);
            }
            self.frames_share.keep(self.frames.len().saturating_sub(OWN_FRAMES));
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.seek = !frame.read;
        }
        self.here = fd;
    }

    fn is(&self, fd: &OwnedFd, inode: u64) -> bool {
        let found = FileStat::at(fd, c"").ok().flatten();
        found.is_some_and(|found| found.device == self.device && found.inode == inode)
    }
}

impl Frame {
    fn new(inode: u64, names: usize) -> Self {
        // Names are bounded far below 4 GiB.
        let names = u32::try_from(names).unwrap_or(u32::MAX);
        Self { inode, cookie: 0, names, seek: false, read: false, nameless: false }
    }
}

/// The sums, in which a file with several names counts once.
#[derive(Debug)]
struct Counted {
    bytes: Fixed,
    inodes: Fixed,
    /// Inodes with several names that were already counted.
    linked: HashSet<u64>,
    share: Share,
}

impl Counted {
    fn new(budget: &Budget) -> Self {
        let share = Share::of(&budget.linked);
        Self { bytes: Fixed(0), inodes: Fixed(0), linked: HashSet::new(), share }
    }

    /// Adds a file. When no more inodes can be remembered, each further name adds its part of the file: all
    /// names together are the file, as long as all of them are below the same directory.
    fn add(&mut self, found: &FileStat) {
        let names = if found.directory { 1 } else { found.links.max(1) };
        if names > 1 && self.linked.contains(&found.inode) {
            return;
        }
        let parts = if names > 1 && self.share.take(1) {
            self.linked.insert(found.inode);
            1
        } else {
            names
        };
        self.bytes.add(found.bytes, parts);
        self.inodes.add(1, parts);
    }
}

/// A sum of whole numbers and of fractions, in units of 2⁻³².
#[derive(Debug)]
struct Fixed(u128);

impl Fixed {
    fn add(&mut self, number: u64, parts: u32) {
        self.0 = self.0.saturating_add((u128::from(number) << 32) / u128::from(parts));
    }

    /// Rounded.
    fn whole(&self) -> u64 {
        u64::try_from(self.0.saturating_add(1 << 31) >> 32).unwrap_or(u64::MAX)
    }
}

/// Whether something is mounted at a directory. Does not wait for the file system that is mounted there.
pub(super) fn is_mount(directory: &Path) -> bool {
    let name = std::ffi::CString::new(directory.as_os_str().as_encoded_bytes());
    name.is_ok_and(|name| FileStat::is_mount(&name))
}

/// Device and inode of a directory, for [`Walk::start`]; `None` if it does not exist.
pub(super) fn identity(directory: &Path) -> Option<(u64, u64)> {
    let name = std::ffi::CString::new(directory.as_os_str().as_encoded_bytes()).ok()?;
    let found = FileStat::at(CWD, &name).ok().flatten()?;
    Some((found.device, found.inode))
}

#[cfg(test)]
mod tests;
