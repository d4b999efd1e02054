//! What a server was asked, written down line by line: `NANOSECONDS LISTENER PATH ANSWER`, the time since 1970. Who reads it
//! may do so while it grows.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::{Act, ServeError};

/// What the names of notes end in.
pub const LOG_SUFFIX: &str = "log";

/// The notes of one process, and what its answers depend on.
#[derive(Debug)]
pub struct Notes {
    folder: PathBuf,
    log: File,
    begun: Instant,
    /// How often each name of `/steps` was asked.
    steps: Mutex<BTreeMap<String, usize>>,
}

impl Notes {
    /// Goes on with those of a process before.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(folder: &Path, name: &str) -> Result<Self, ServeError> {
        let path = folder.join(format!("{name}.{LOG_SUFFIX}"));
        let log = File::options().create(true).append(true).open(&path);
        let log = log.map_err(|source| ServeError::File { path, source })?;
        Ok(Self { folder: folder.to_owned(), log, begun: Instant::now(), steps: Mutex::default() })
    }

    /// One line, whole: a write of less than a page to a file that is appended to.
    pub fn add(&self, listener: &str, path: &str, answer: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let line = format!("{now} {listener} {path} {answer}\n");
        // Nobody is there to be told; a missing line fails the test.
        let _told = (&self.log).write_all(line.as_bytes());
    }

    /// What is done now: files are read, steps counted, the time looked at.
    pub fn resolve(&self, act: Act) -> Act {
        match act {
            Act::File(name) => match fs::read_to_string(self.folder.join(&name)) {
                // One file does not lead to another.
                Ok(text) => match Act::of(&text) {
                    Act::File(_) => Act::Unknown,
                    act => self.resolve(act),
                },
                Err(_) => Act::Status(503),
            },
            Act::Steps { name, steps } => {
                let mut asked = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
                let nth = asked.entry(name).or_default();
                let step = steps.get((*nth).min(steps.len().saturating_sub(1))).cloned();
                *nth += 1;
                step.unwrap_or(Act::Unknown)
            }
            Act::Blink(seconds) => {
                let halves = (self.begun.elapsed().as_secs_f64() / seconds) as u64;
                Act::Status(if halves.is_multiple_of(2) { 200 } else { 503 })
            }
            act => act,
        }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    pub at: SystemTime,
    pub listener: String,
    pub path: String,
    pub answer: String,
}

/// Every whole line of the notes of this name; none if there are none yet.
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
    fn what_is_noted_can_be_read_while_it_grows() {
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
    fn answers_change_by_files_and_by_how_often_they_were_asked() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Notes::open(folder.path(), "a").unwrap();
        let status = |path: &str| notes.resolve(Act::of(path));
        assert_eq!(status("/file/ready"), Act::Status(503));
        fs::write(folder.path().join("ready"), "/ok\n").unwrap();
        assert_eq!(status("/file/ready"), Act::Status(200));
        fs::write(folder.path().join("ready"), "/file/ready").unwrap();
        assert_eq!(status("/file/ready"), Act::Unknown);
        let asked: Vec<_> = (0..4).map(|_| status("/steps/s/ok.bad.hang")).collect();
        assert_eq!(asked, [Act::Status(200), Act::Status(503), Act::Hang, Act::Hang]);
        assert_eq!(status("/steps/other/ok.bad"), Act::Status(200));
        assert_eq!(status("/blink/3600"), Act::Status(200));
        std::thread::sleep(Duration::from_millis(15));
        let bad = (0..20).map(|_| {
            std::thread::sleep(Duration::from_millis(3));
            status("/blink/0.01")
        });
        assert!(bad.into_iter().any(|act| act == Act::Status(503)));
    }
}
