//! One run's log from where it was asked for, through the files that it was rotated to.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use memchr::memchr;

use super::back::last_lines;
use super::files::{Found, chain};
use super::{Entry, LogError, Piece, Selection};

/// Read at a time.
const CHUNK: usize = 64 << 10;
/// Longer lines are no log entries: runtimes cut at 16 KiB or so.
const LONGEST: usize = 8 << 20;

/// What is asked of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Request {
    /// Only the last so many lines; what is written later comes in addition.
    pub tail: Option<u64>,
    /// Nothing older.
    pub since: Option<Timestamp>,
    /// Each line with its time before it.
    pub timestamps: bool,
    /// No more bytes than so.
    pub limit_bytes: Option<u64>,
}

/// What [`Reader::read`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There may be more.
    More,
    /// All that is written has been read.
    End,
    /// Nothing more will be shown: the limit is reached.
    Full,
}

/// Reads a log; calls block.
#[derive(Debug)]
pub struct Reader {
    /// The run's log: where the newest file is.
    path: PathBuf,
    /// The file that is being read; `None` until there is one.
    current: Option<Current>,
    selection: Selection,
    /// Read, not yet a whole line.
    rest: Vec<u8>,
}

#[derive(Debug)]
struct Current {
    file: File,
    path: PathBuf,
    id: (u64, u64),
    offset: u64,
    /// The runtime writes to another file by now: what is here after that is all.
    left: bool,
}

impl Reader {
    /// Finds the place to begin. A file that is not there yet is waited for.
    ///
    /// # Errors
    /// A file is there and cannot be read.
    pub fn open(path: &Path, request: &Request) -> Result<Self, LogError> {
        let selection = Selection::new(request.since, request.timestamps, request.limit_bytes);
        let mut this = Self { path: path.to_owned(), current: None, selection, rest: Vec::new() };
        let mut files = chain(path)?;
        if let Some(since) = request.since {
            // The newest is kept: it is where more will come.
            let since = SystemTime::from(since);
            let kept = files.iter().position(|f| f.written >= since).unwrap_or(files.len());
            files.drain(..kept.min(files.len().saturating_sub(1)));
        }
        match request.tail {
            None => {
                for found in &files {
                    if this.enter(found)? {
                        break;
                    }
                }
            }
            Some(wanted) => {
                let mut missing = wanted;
                for found in files.iter().rev() {
                    if !this.enter(found)? {
                        continue;
                    }
                    let Some(current) = &mut this.current else { continue };
                    let at = LogError::at("read", &current.path);
                    let end = current.file.metadata().map_err(LogError::at("stat", &current.path))?.len();
                    let last = last_lines(&current.file, end, missing).map_err(at)?;
                    current.offset = last.offset;
                    current.seek()?;
                    missing -= last.lines;
                    if missing == 0 {
                        break;
                    }
                }
            }
        }
        Ok(this)
    }

    /// Whether there is a file at all.
    pub fn found(&self) -> bool {
        self.current.is_some()
    }

    /// Reads on by one step and adds what is to be shown.
    ///
    /// # Errors
    /// A call failed.
    pub fn read(&mut self, out: &mut Vec<Piece>) -> Result<Step, LogError> {
        if self.selection.is_exhausted() {
            return Ok(Step::Full);
        }
        let Some(current) = &mut self.current else {
            return Ok(if self.advance()? { Step::More } else { Step::End });
        };
        let before = self.rest.len();
        self.rest.resize(before + CHUNK, 0);
        let read = current.file.read(&mut self.rest[before..]);
        self.rest.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(Step::More),
            Err(e) => Err(LogError::at("read", &current.path)(e)),
            Ok(0) => {
                if current.left {
                    let full = self.show_rest(out);
                    self.advance()?;
                    return Ok(if full { Step::Full } else { Step::More });
                }
                if self.moved()? { Ok(Step::More) } else { Ok(Step::End) }
            }
            Ok(n) => {
                current.offset += n as u64;
                Ok(if self.show(out) { Step::Full } else { Step::More })
            }
        }
    }

    /// Shows what is there of a line without an end: for one that reads no further.
    pub fn finish(&mut self, out: &mut Vec<Piece>) {
        if !self.selection.is_exhausted() {
            self.show_rest(out);
        }
    }

    /// Takes the whole lines of what was read. Says whether the limit is reached.
    fn show(&mut self, out: &mut Vec<Piece>) -> bool {
        let mut begin = 0;
        while let Some(length) = memchr(b'\n', &self.rest[begin..]) {
            let line = &self.rest[begin..begin + length];
            begin += length + 1;
            // What has another form is left out, as the kubelet does.
            let Some(entry) = Entry::parse(line) else { continue };
            if self.selection.take(&entry, out).is_break() {
                return true;
            }
        }
        self.rest.drain(..begin);
        if self.rest.len() > LONGEST {
            self.rest.clear();
        }
        false
    }

    fn show_rest(&mut self, out: &mut Vec<Piece>) -> bool {
        let rest = std::mem::take(&mut self.rest);
        Entry::parse(&rest).is_some_and(|entry| self.selection.take(&entry, out).is_break())
    }

    /// At the end of the file: whether there is more to read all the same, since it was rotated away or cut.
    fn moved(&mut self) -> Result<bool, LogError> {
        let Some(current) = &mut self.current else { return Ok(false) };
        let length = current.file.metadata().map_err(LogError::at("stat", &current.path))?.len();
        if length < current.offset {
            // Copied away and truncated.
            current.offset = 0;
            current.seek()?;
            self.rest.clear();
            return Ok(true);
        }
        match std::fs::metadata(&self.path) {
            Ok(m) if (m.dev(), m.ino()) != current.id => {
                // What was written before the runtime let go of it may have come since the last read.
                current.left = true;
                Ok(true)
            }
            Ok(_) => Ok(false),
            // Renamed, and the new one not made yet.
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(LogError::at("stat", &self.path)(e)),
        }
    }

    /// Goes to the next file. Says whether there was one.
    fn advance(&mut self) -> Result<bool, LogError> {
        let files = chain(&self.path)?;
        let next = match &self.current {
            None => 0,
            // Removed or compressed: only the newest is sure to be newer.
            Some(current) => match files.iter().position(|f| f.id == current.id) {
                Some(at) => at + 1,
                None => files.len().saturating_sub(1),
            },
        };
        for found in files.iter().skip(next) {
            if self.enter(found)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads on at the beginning of a file. `false` if it is gone.
    fn enter(&mut self, found: &Found) -> Result<bool, LogError> {
        let file = match File::open(&found.path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(LogError::at("open", &found.path)(e)),
        };
        let m = file.metadata().map_err(LogError::at("stat", &found.path))?;
        let (path, id) = (found.path.clone(), (m.dev(), m.ino()));
        self.current = Some(Current { file, path, id, offset: 0, left: false });
        Ok(true)
    }
}

impl Current {
    fn seek(&mut self) -> Result<(), LogError> {
        let at = LogError::at("lseek", &self.path);
        self.file.seek(SeekFrom::Start(self.offset)).map(drop).map_err(at)
    }
}
