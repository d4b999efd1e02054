//! Reads one run's log from the requested position, across rotated files.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::time::SystemTime;

use jiff::Timestamp;
use memchr::memchr;

use super::back::last_lines;
use super::files::{Found, chain, identity};
use super::place::LogDir;
use super::{Entry, LogError, LogPath, Piece, Selection, Stream};

/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// Longer lines cannot be log entries, because runtimes split lines at about 16 KiB.
const LONGEST: usize = 8 << 20;

/// Which part of a log is requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Request {
    /// Only this many lines at the end; lines written later are added.
    pub tail: Option<u64>,
    /// Only entries since then.
    pub since: Option<Timestamp>,
    /// Whether each line is prefixed with its time.
    pub timestamps: bool,
    /// Maximum number of bytes.
    pub limit_bytes: Option<u64>,
    /// Only what was written to this stream.
    pub stream: Option<Stream>,
}

/// Result of [`Reader::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There may be more to read.
    More,
    /// Everything written so far has been read.
    End,
    /// The limit of bytes is reached.
    Full,
}

/// Reads a log; its functions block.
#[derive(Debug)]
pub struct Reader {
    /// Place of the newest file of the run's log.
    path: LogPath,
    /// The file being read; `None` until one exists.
    current: Option<Current>,
    selection: Selection,
    /// Bytes that are not yet a whole line.
    rest: Vec<u8>,
}

#[derive(Debug)]
struct Current {
    file: File,
    path: PathBuf,
    id: (u64, u64),
    offset: u64,
    /// Whether the runtime already writes to another file, so that this one is complete.
    left: bool,
}

impl Reader {
    /// Finds the position to begin at. The file does not have to exist yet.
    ///
    /// # Errors
    /// An existing file cannot be read.
    pub fn open(path: &LogPath, request: &Request) -> Result<Self, LogError> {
        let selection =
            Selection::new(request.since, request.timestamps, request.limit_bytes).only(request.stream);
        let mut this = Self { path: path.clone(), current: None, selection, rest: Vec::new() };
        let Some((directory, mut files)) = chain(path)? else { return Ok(this) };
        if let Some(since) = request.since {
            // The newest file is kept, because new output goes there.
            let since = SystemTime::from(since);
            let kept = files.iter().position(|f| f.written >= since).unwrap_or(files.len());
            files.drain(..kept.min(files.len().saturating_sub(1)));
        }
        match request.tail {
            None => {
                for found in &files {
                    if this.enter(&directory, found)? {
                        break;
                    }
                }
            }
            Some(wanted) => {
                let mut missing = wanted;
                for found in files.iter().rev() {
                    if !this.enter(&directory, found)? {
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

    /// Whether a file exists.
    pub fn found(&self) -> bool {
        self.current.is_some()
    }

    /// Reads one chunk and adds the selected output.
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

    /// Adds an unfinished last line, for callers that do not continue reading.
    pub fn finish(&mut self, out: &mut Vec<Piece>) {
        if !self.selection.is_exhausted() {
            self.show_rest(out);
        }
    }

    /// Processes the whole lines that were read. Returns whether the limit is reached.
    fn show(&mut self, out: &mut Vec<Piece>) -> bool {
        let mut begin = 0;
        while let Some(length) = memchr(b'\n', &self.rest[begin..]) {
            let line = &self.rest[begin..begin + length];
            begin += length + 1;
            // Lines of another format are left out, as in the kubelet.
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

    /// At the end of the file: whether there is more to read because it was rotated or truncated.
    fn moved(&mut self) -> Result<bool, LogError> {
        let Some(current) = &mut self.current else { return Ok(false) };
        let length = current.file.metadata().map_err(LogError::at("stat", &current.path))?.len();
        if length < current.offset {
            // The file was copied and truncated.
            current.offset = 0;
            current.seek()?;
            self.rest.clear();
            return Ok(true);
        }
        let directory = match self.path.directory() {
            Err(error) if error.is_missing() => return Ok(false),
            directory => directory?,
        };
        match directory.stat(self.path.name())? {
            Some(newest) if identity(&newest) != current.id => {
                // The runtime may have written to the old file since the last read.
                current.left = true;
                Ok(true)
            }
            // `None`: renamed, and the new file does not exist yet.
            Some(_) | None => Ok(false),
        }
    }

    /// Goes to the next file. Returns whether there is one.
    fn advance(&mut self) -> Result<bool, LogError> {
        let Some((directory, files)) = chain(&self.path)? else { return Ok(false) };
        let next = match &self.current {
            None => 0,
            // The file was removed or compressed: only the newest file is certainly newer.
            Some(current) => match files.iter().position(|f| f.id == current.id) {
                Some(at) => at + 1,
                None => files.len().saturating_sub(1),
            },
        };
        for found in files.iter().skip(next) {
            if self.enter(&directory, found)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Continues at the beginning of a file. `false` if it no longer exists.
    fn enter(&mut self, directory: &LogDir, found: &Found) -> Result<bool, LogError> {
        let Some((file, facts)) = directory.open(&found.name)? else { return Ok(false) };
        let path = directory.path_of(&found.name);
        self.current = Some(Current { file, path, id: identity(&facts), offset: 0, left: false });
        Ok(true)
    }
}

impl Current {
    fn seek(&mut self) -> Result<(), LogError> {
        let at = LogError::at("lseek", &self.path);
        self.file.seek(SeekFrom::Start(self.offset)).map(drop).map_err(at)
    }
}
