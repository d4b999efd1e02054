//! Makes a server use up memory, processes and disk space of the node. Three files in its directory control
//! this at any time: `NAME.hold` contains how many bytes of memory to hold and at how many bytes per second
//! to take them (0: as fast as possible), `NAME.fork` contains the number of children, `NAME.write` contains
//! which files to write: `DIRECTORY COUNT BYTES`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Notes, ServeError};
use crate::page::page_bytes;

/// Suffixes of the names of these files.
pub const HOLD_SUFFIX: &str = "hold";
pub const FORK_SUFFIX: &str = "fork";
pub const WRITE_SUFFIX: &str = "write";
/// The most bytes that can be held. Only addresses are reserved, no memory.
const ROOM: usize = 16 << 30;
/// Bytes touched in one step if no rate is given.
const STRIDE: usize = 1 << 20;
/// Files of one directory; a further one is made for those beyond.
const FILES_OF_A_DIRECTORY: u64 = 1000;
/// Content of a single write.
static CHUNK: [u8; 64 << 10] = [0x5a; 64 << 10];
/// How often the files are read, and how long a step lasts if a rate is given.
const POLL_PERIOD: Duration = Duration::from_millis(5);
const STEP: Duration = Duration::from_millis(1);

/// Starts a thread that reads the files until the process ends.
///
/// # Errors
/// The addresses cannot be reserved, or the thread cannot be started.
pub(super) fn start(folder: &Path, name: &str, notes: Arc<Notes>) -> Result<(), ServeError> {
    let file = |suffix: &str| folder.join(format!("{name}.{suffix}"));
    let mut greed = Greed { room: room()?, held: 0, children: 0, written: String::new(), notes };
    let files = [HOLD_SUFFIX, FORK_SUFFIX, WRITE_SUFFIX].map(file);
    std::thread::Builder::new()
        .name("greed".into())
        .spawn(move || greed.run(&files))
        .map(drop)
        .map_err(ServeError::system("start a thread"))
}

struct Greed {
    /// The first address of [`ROOM`] bytes.
    room: usize,
    /// How many bytes from there have been touched.
    held: usize,
    children: u64,
    /// The last order to write files that was carried out.
    written: String,
    notes: Arc<Notes>,
}

impl Greed {
    fn run(&mut self, [hold, fork, write]: &[PathBuf; 3]) {
        loop {
            // A file that is missing or incomplete is ignored.
            if let Some(wanted) = fs::read_to_string(hold).ok().and_then(|text| Hold::parse(&text)) {
                self.hold(wanted);
            }
            let children = fs::read_to_string(fork).ok().and_then(|text| text.trim().parse().ok());
            self.fork(children.unwrap_or(0));
            if let Ok(order) = fs::read_to_string(write) {
                self.write(order.trim());
            }
            std::thread::sleep(POLL_PERIOD);
        }
    }

    fn hold(&mut self, wanted: Hold) {
        let bytes = wanted.bytes.min(ROOM).next_multiple_of(page_bytes()).min(ROOM);
        if bytes == self.held {
            return;
        }
        self.notes.add("hold", &bytes.to_string(), "begun");
        if bytes < self.held {
            // SAFETY: whole pages of the mapping that was made for this; nothing else refers to them.
            let freed = unsafe {
                libc::madvise(
                    (self.room + bytes) as *mut libc::c_void,
                    self.held - bytes,
                    libc::MADV_DONTNEED,
                )
            };
            if freed != 0 {
                self.notes.add("hold", &bytes.to_string(), "refused");
                return;
            }
        } else {
            self.take(self.held, bytes, wanted.pace);
        }
        self.held = bytes;
        self.notes.add("hold", &bytes.to_string(), "done");
    }

    /// Writes the files of an order, once.
    fn write(&mut self, order: &str) {
        let Some(files) = Files::parse(order).filter(|_| order != self.written) else { return };
        self.written = order.to_owned();
        let folder = files.folder.display().to_string();
        let written = files.write();
        self.notes.add("write", &folder, if written.is_ok() { "done" } else { "refused" });
    }

    /// Touches the pages from `from` to `to`, at `pace` bytes per second (0: at once).
    fn take(&self, from: usize, to: usize, pace: u64) {
        let (begun, mut taken, page) = (Instant::now(), from, page_bytes());
        while taken < to {
            let due = match pace {
                0 => taken + STRIDE,
                pace => from + (begun.elapsed().as_secs_f64() * pace as f64) as usize,
            };
            let due = due.min(to);
            for offset in (taken.next_multiple_of(page)..due).step_by(page) {
                // SAFETY: within the writable mapping of `ROOM` bytes.
                unsafe { ((self.room + offset) as *mut u8).write_volatile(1) };
            }
            taken = due.max(taken);
            if pace > 0 && taken < to {
                std::thread::sleep(STEP);
            }
        }
    }

    /// Forks children that do nothing until there are `wanted`. They end with the container.
    fn fork(&mut self, wanted: u64) {
        if self.children >= wanted {
            return;
        }
        while self.children < wanted {
            // SAFETY: the child calls nothing but prctl, pause and _exit, which are async-signal-safe.
            match unsafe { libc::fork() } {
                0 => loop {
                    // SAFETY: as above. If the server ends first, the kernel kills the child.
                    unsafe {
                        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                        libc::pause();
                    }
                },
                -1 => {
                    self.notes.add("fork", &self.children.to_string(), "refused");
                    return;
                }
                _ => self.children += 1,
            }
        }
        self.notes.add("fork", &self.children.to_string(), "done");
    }
}

/// Reserves [`ROOM`] bytes of addresses, without memory, to be used in small pages.
fn room() -> Result<usize, ServeError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh private mapping at an address of the kernel's choice.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), ROOM, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(ServeError::system("mmap")(std::io::Error::last_os_error()));
    }
    // Kernels without huge pages return an error, which does no harm.
    // SAFETY: the range mapped above.
    unsafe { libc::madvise(start, ROOM, libc::MADV_NOHUGEPAGE) };
    Ok(start as usize)
}

/// How much memory to hold, and how fast to take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hold {
    bytes: usize,
    /// Bytes per second; 0 for as fast as possible.
    pace: u64,
}

impl Hold {
    /// Parses `BYTES PACE`.
    fn parse(text: &str) -> Option<Self> {
        let (bytes, pace) = text.trim().split_once(' ')?;
        Some(Self { bytes: bytes.parse().ok()?, pace: pace.parse().ok()? })
    }
}

/// Which files to write.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Files {
    folder: PathBuf,
    count: u64,
    /// Of each.
    bytes: usize,
}

impl Files {
    /// Parses `DIRECTORY COUNT BYTES`.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let folder = words.next().filter(|folder| folder.starts_with('/'))?.into();
        let this = Self { folder, count: words.next()?.parse().ok()?, bytes: words.next()?.parse().ok()? };
        words.next().is_none().then_some(this)
    }

    fn write(&self) -> std::io::Result<()> {
        let mut folder = self.folder.clone();
        for number in 0..self.count {
            if number % FILES_OF_A_DIRECTORY == 0 {
                folder = self.folder.join((number / FILES_OF_A_DIRECTORY).to_string());
                fs::create_dir_all(&folder)?;
            }
            let mut file = fs::File::create(folder.join(number.to_string()))?;
            let mut left = self.bytes;
            while left > 0 {
                let now = left.min(CHUNK.len());
                file.write_all(&CHUNK[..now])?;
                left -= now;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::read_notes;

    #[test]
    fn an_incomplete_file_is_ignored() {
        assert_eq!(Hold::parse("4096 100\n"), Some(Hold { bytes: 4096, pace: 100 }));
        for text in ["", "4096", "4096 ", "x 1", "-1 0"] {
            assert_eq!(Hold::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn files_are_written_once_for_each_order() {
        for text in ["", "/x", "/x 1", "x 1 1", "/x 1 1 1", "/x -1 1"] {
            assert_eq!(Files::parse(text), None, "{text:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let notes = Arc::new(Notes::open(folder.path(), "a").unwrap());
        let mut greed = Greed { room: room().unwrap(), held: 0, children: 0, written: String::new(), notes };
        let target = folder.path().join("files");
        let order = format!("{} 1001 70000", target.display());
        greed.write(&order);
        greed.write(&order);
        let file = |path: &str| fs::metadata(target.join(path)).unwrap().len();
        assert_eq!((file("0/999"), file("1/1000")), (70_000, 70_000));
        assert!(!target.join("0/1000").exists());
        let done = read_notes(folder.path(), "a").iter().filter(|one| one.answer == "done").count();
        assert_eq!(done, 1);
    }

    #[test]
    fn memory_is_taken_at_the_given_rate_and_returned() {
        let folder = tempfile::tempdir().unwrap();
        let notes = Arc::new(Notes::open(folder.path(), "a").unwrap());
        let mut greed = Greed { room: room().unwrap(), held: 0, children: 0, written: String::new(), notes };
        let page = page_bytes();
        let resident = |greed: &Greed| {
            let mut pages = vec![0u8; 1024];
            // SAFETY: 1024 pages of the mapping, a byte each in the array.
            let result = unsafe {
                libc::mincore(greed.room as *mut libc::c_void, 1024 * page_bytes(), pages.as_mut_ptr().cast())
            };
            assert_eq!(result, 0);
            pages.iter().filter(|page| **page & 1 == 1).count()
        };
        let begun = Instant::now();
        greed.hold(Hold { bytes: 400 * page, pace: (400 * page * 10) as u64 });
        assert!(begun.elapsed() >= Duration::from_millis(90), "{:?}", begun.elapsed());
        assert_eq!(resident(&greed), 400);
        greed.hold(Hold { bytes: 1000 * page, pace: 0 });
        assert_eq!(resident(&greed), 1000);
        greed.hold(Hold { bytes: 10 * page, pace: 0 });
        assert_eq!(resident(&greed), 10);
        let done = read_notes(folder.path(), "a").iter().filter(|one| one.answer == "done").count();
        assert_eq!(done, 3);
    }
}
