//! The notes of a server: a line for each request, `NANOSECONDS LISTENER PATH ANSWER`, with the time since
//! 1970. The file can be read while it grows.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Answer, ServeError};
use parking_lot::Mutex;

/// Suffix of the names of notes.
pub const LOG_SUFFIX: &str = "log";

/// The notes of one process, and the state on which its answers depend.
#[derive(Debug)]
pub struct Notes {
    folder: PathBuf,
    log: File,
    begun: Instant,
    /// How many requests there were for each name of `/steps`.
    steps: Mutex<BTreeMap<String, usize>>,
}

impl Notes {
    /// Opens the notes. If the file exists, new lines are appended.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(folder: &Path, name: &str) -> Result<Self, ServeError> {
        let path = folder.join(format!("{name}.{LOG_SUFFIX}"));
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|source| ServeError::File { path, source })?;
        Ok(Self { folder: folder.to_owned(), log, begun: Instant::now(), steps: Mutex::default() })
    }

    /// Appends one line. It is never interleaved with another one, because it is a single write of less than
    /// a page to a file opened for appending.
    pub fn add(&self, listener: &str, path: &str, answer: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let line = format!("{now} {listener} {path} {answer}\n");
        // The error cannot be reported here; a missing line fails the test.
        let _result = (&self.log).write_all(line.as_bytes());
    }

    /// Resolves an answer that depends on a file, on the number of requests or on the time.
    pub fn resolve(&self, answer: Answer) -> Answer {
        match answer {
            Answer::File(name) => match fs::read_to_string(self.folder.join(&name)) {
                // A file may not refer to another file.
                Ok(text) => match Answer::of(&text) {
                    Answer::File(_) => Answer::Unknown,
                    answer => self.resolve(answer),
                },
                Err(_) => Answer::Status(503),
            },
            Answer::Steps { name, steps } => {
                let mut asked = self.steps.lock();
                let nth = asked.entry(name).or_default();
                let step = steps.get((*nth).min(steps.len().saturating_sub(1))).cloned();
                *nth += 1;
                step.unwrap_or(Answer::Unknown)
            }
            Answer::Blink(seconds) => {
                let halves = (self.begun.elapsed().as_secs_f64() / seconds) as u64;
                Answer::Status(if halves.is_multiple_of(2) { 200 } else { 503 })
            }
            answer => answer,
        }
    }
}

/// One line of the notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    pub at: SystemTime,
    pub listener: String,
    pub path: String,
    pub answer: String,
}

/// Every complete line of the notes with this name; none if the file does not exist yet.
pub fn read_notes(folder: &Path, name: &str) -> Vec<Noted> {
    let text = fs::read_to_string(folder.join(format!("{name}.{LOG_SUFFIX}"))).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<Noted> {
    let mut words = line.split(' ');
    let at = UNIX_EPOCH + Duration::from_nanos(words.next()?.parse().ok()?);
    let mut word = || words.next().map(str::to_owned);
    Some(Noted { at, listener: word()?, path: word()?, answer: word()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_can_be_read_while_they_grow() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_notes(folder.path(), "a"), []);
        let notes = Notes::open(folder.path(), "a").unwrap();
        let before = SystemTime::now();
        notes.add("http", "/ok?x=1", "200");
        drop(notes);
        Notes::open(folder.path(), "a").unwrap().add("main", "-", "started");
        let mut log = File::options().append(true).open(folder.path().join("a.log")).unwrap();
        log.write_all(b"123 half").unwrap();
        let read = read_notes(folder.path(), "a");
        assert_eq!(read.len(), 2);
        assert_eq!((&*read[0].listener, &*read[0].path, &*read[0].answer), ("http", "/ok?x=1", "200"));
        assert!(read[0].at >= before && read[1].at <= SystemTime::now());
    }

    #[test]
    fn answers_depend_on_files_request_counts_and_time() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes::open(folder.path(), "a").unwrap();
        let status = |path: &str| notes.resolve(Answer::of(path));
        assert_eq!(status("/file/ready"), Answer::Status(503));
        fs::write(folder.path().join("ready"), "/ok\n").unwrap();
        assert_eq!(status("/file/ready"), Answer::Status(200));
        fs::write(folder.path().join("ready"), "/file/ready").unwrap();
        assert_eq!(status("/file/ready"), Answer::Unknown);
        let asked: Vec<_> = (0..4).map(|_| status("/steps/s/ok.bad.hang")).collect();
        assert_eq!(asked, [Answer::Status(200), Answer::Status(503), Answer::Hang, Answer::Hang]);
        assert_eq!(status("/steps/other/ok.bad"), Answer::Status(200));
        assert_eq!(status("/blink/3600"), Answer::Status(200));
        std::thread::sleep(Duration::from_millis(15));
        let bad = (0..20).map(|_| {
            std::thread::sleep(Duration::from_millis(3));
            status("/blink/0.01")
        });
        assert!(bad.into_iter().any(|answer| answer == Answer::Status(503)));
    }
}
