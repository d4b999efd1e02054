//! One file of a cgroup: its description, and repeated reads through one open descriptor.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Controller;
use super::activity::Known;
use nodewarden_model::Usage;

/// When a file may differ although no task of the cgroup has run since the last reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alone {
    /// It differs only if the memory in use does too: CPU time, composition of memory.
    WithMemory,
    /// At any time: memory that others reclaim, I/O that is written back later, processes that are reaped.
    Always,
    /// Only while a task is stalled.
    Stalled,
    /// When someone writes it: limits.
    Written,
}

/// A file to read, and how its text is taken into the usage.
#[derive(Debug)]
pub struct Spec {
    /// The controller whose hierarchy has the file; `None` for the unified one.
    pub controller: Option<Controller>,
    /// The file's name.
    pub name: &'static str,
    /// Takes the file's text into the usage.
    pub parse: fn(&[u8], &mut Usage),
    /// Whether it has to be read at every reading, given what was read before it; else it is read only from
    /// time to time.
    pub hot: fn(&Usage) -> bool,
    /// Whether it contains the used CPU time, which shows whether the cgroup was active since the last
    /// reading.
    pub has_cpu_time: bool,
    /// When it may differ although nothing has run.
    pub alone: Alone,
    /// The figure that is all it contains, if the kernel programs may know it.
    pub known: Option<Known>,
}

impl Spec {
    /// A file with counters: read at every reading, on the hierarchy of `controller`.
    pub const fn hot(controller: Controller, name: &'static str, parse: fn(&[u8], &mut Usage)) -> Self {
        let alone = Alone::WithMemory;
        Self {
            controller: Some(controller),
            name,
            parse,
            hot: |_| true,
            has_cpu_time: false,
            alone,
            known: None,
        }
    }

    /// A file with counts that is read only from time to time, if something has run or changed since.
    pub const fn slow(controller: Controller, name: &'static str, parse: fn(&[u8], &mut Usage)) -> Self {
        Self { hot: |_| false, ..Self::hot(controller, name, parse) }
    }

    /// A file with limits, which change only when they are written: read from time to time.
    pub const fn limit(controller: Controller, name: &'static str, parse: fn(&[u8], &mut Usage)) -> Self {
        Self { alone: Alone::Written, ..Self::slow(controller, name, parse) }
    }

    /// A file of PSI, on the unified hierarchy, whatever controllers it has; read at every reading.
    pub const fn pressure(name: &'static str, parse: fn(&[u8], &mut Usage)) -> Self {
        Self { controller: None, alone: Alone::Stalled, ..Self::hot(Controller::Cpu, name, parse) }
    }

    /// Marks a file that may differ at any time.
    pub const fn alone(self) -> Self {
        Self { alone: Alone::Always, ..self }
    }

    /// Marks a file that contains only a figure that the kernel programs may know.
    pub const fn known(self, figure: Known) -> Self {
        Self { known: Some(figure), ..self }
    }

    /// Marks the file as the one with the used CPU time.
    pub const fn with_cpu_time(self) -> Self {
        Self { has_cpu_time: true, ..self }
    }

    /// Read at every reading only if `hot` returns true.
    pub const fn hot_when(self, hot: fn(&Usage) -> bool) -> Self {
        Self { hot, ..self }
    }
}

/// How many descriptors may be kept open. Beyond it files are opened for each reading, which takes about four
/// times as long; an open one costs 4.4 KiB of kernel memory.
#[derive(Debug, Clone)]
pub struct Budget {
    left: Arc<AtomicUsize>,
    most: usize,
}

impl Budget {
    /// A budget of so many descriptors.
    pub fn new(descriptors: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(descriptors)), most: descriptors }
    }

    /// Whether one more may be open, and then it is counted.
    fn take(&self, keep: Keep) -> bool {
        let reserved = match keep {
            Keep::No => return false,
            Keep::IfFew => self.most.saturating_sub(FEW),
            Keep::IfRoom => 0,
        };
        let take = |left: usize| left.checked_sub(1).filter(|left| *left >= reserved);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Whether an open one is closed.
    fn is_to_close(&self, keep: Keep) -> bool {
        match keep {
            Keep::No => true,
            Keep::IfFew => self.most - self.left.load(Ordering::Relaxed) > FEW,
            Keep::IfRoom => false,
        }
    }

    fn give_back(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

/// With so many open files, only those of cgroups in which something runs are kept open: 9 MB of kernel
/// memory.
const FEW: usize = 2048;

/// Whether a file is kept open for the next reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// It is closed.
    No,
    /// If no more than [`FEW`] are open.
    IfFew,
    /// If the budget allows.
    IfRoom,
}

/// The files of one cgroup, each known by its place in a list that all cgroups share; those that the budget
/// allows are kept open. There are thousands of these values and few open files: only those take memory. The
/// budget is the caller's, the same one in each call, and the caller closes the files before this is dropped.
#[derive(Debug, Default)]
pub struct CachedFiles {
    open: Vec<(u8, File)>,
    /// A bit for each file that this cgroup does not have (root, or a kernel without it).
    absent: u64,
}

impl CachedFiles {
    /// How many files there can be.
    pub const MOST: usize = u64::BITS as usize;

    /// Whether a file is kept open.
    pub fn is_open(&self, at: u8) -> bool {
        self.position(at).is_some()
    }

    fn position(&self, at: u8) -> Option<usize> {
        self.open.iter().position(|(own, _)| *own == at)
    }

    /// Closes a file if it is open; the next reading opens it again.
    pub fn close(&mut self, at: u8, budget: &Budget) {
        if let Some(position) = self.position(at) {
            budget.give_back();
            self.open.swap_remove(position);
            if self.open.is_empty() {
                // Its memory too.
                self.open = Vec::new();
            }
        }
    }

    /// Closes all files.
    pub fn close_all(&mut self, budget: &Budget) {
        for _ in std::mem::take(&mut self.open) {
            budget.give_back();
        }
    }

    /// Reads file `at`, which is called `name` in `dir`, from its start; `dir` is asked for only to open it.
    /// `None` when there is none.
    ///
    /// # Errors
    /// As of open(2) and pread(2); ENODEV when the cgroup is gone.
    pub fn read<'b>(
        &mut self,
        budget: &Budget,
        at: u8,
        dir: impl Fn() -> PathBuf,
        name: &str,
        keep: Keep,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<Option<&'b [u8]>> {
        if self.absent & (1 << at) != 0 {
            return Ok(None);
        }
        if let Some(position) = self.position(at) {
            let text = pread_all(&self.open[position].1, buffer)?;
            if budget.is_to_close(keep) {
                self.close(at, budget);
            }
            return Ok(Some(text));
        }
        let file = match File::open(dir().join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // If the whole cgroup is gone, the missing file does not show that this kernel lacks it.
                if dir().exists() {
                    self.absent |= 1 << at;
                    return Ok(None);
                }
                return Err(io::Error::from_raw_os_error(libc::ENODEV));
            }
            Err(error) => return Err(error),
        };
        let text = match pread_all(&file, buffer) {
            // With PSI off, the pressure files exist and cannot be read.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                self.absent |= 1 << at;
                return Ok(None);
            }
            result => result?,
        };
        if budget.take(keep) {
            self.open.push((at, file));
        }
        Ok(Some(text))
    }
}

/// Initial size of the buffer, enough for nearly all files.
const CHUNK: usize = 4096;

/// Reads the whole file. The buffer is never shrunk, so that it need not be cleared between two files.
pub fn pread_all<'b>(file: &File, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
    let mut filled = 0;
    loop {
        if buffer.len() < filled + CHUNK {
            buffer.resize(filled + CHUNK, 0);
        }
        let room = buffer.len() - filled;
        match file.read_at(&mut buffer[filled..], filled as u64) {
            // A short read is the end of the file: the kernel always fills the buffer.
            Ok(n) if n < room => return Ok(&buffer[..filled + n]),
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_again_what_changed_with_or_without_budget() {
        for budget in [Budget::new(1), Budget::new(0)] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("f"), "1").unwrap();
            let mut file = CachedFiles::default();
            let mut buffer = Vec::new();
            assert_eq!(
                file.read(&budget, 0, || dir.path().to_owned(), "f", Keep::IfRoom, &mut buffer).unwrap(),
                Some(&b"1"[..])
            );
            std::fs::write(dir.path().join("f"), "x".repeat(3 * CHUNK)).unwrap();
            assert_eq!(
                file.read(&budget, 0, || dir.path().to_owned(), "f", Keep::IfRoom, &mut buffer)
                    .unwrap()
                    .unwrap()
                    .len(),
                3 * CHUNK
            );
            std::fs::write(dir.path().join("f"), "22").unwrap();
            assert_eq!(
                file.read(&budget, 0, || dir.path().to_owned(), "f", Keep::IfRoom, &mut buffer).unwrap(),
                Some(&b"22"[..])
            );
        }
    }

    #[test]
    fn a_closed_file_returns_its_descriptor_to_the_budget() {
        let budget = Budget::new(1);
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "1").unwrap();
        CachedFiles::default()
            .read(&budget, 0, || dir.path().to_owned(), "f", Keep::No, &mut Vec::new())
            .unwrap();
        let mut file = CachedFiles::default();
        let mut read = |keep| {
            file.read(&budget, 0, || dir.path().to_owned(), "f", keep, &mut Vec::new()).unwrap().is_some()
        };
        let take = || budget.take(Keep::IfRoom);
        assert!(read(Keep::IfRoom) && !take());
        assert!(read(Keep::No) && take(), "one that is not to be kept is closed");
        budget.give_back();
        assert!(read(Keep::IfRoom) && !take());
        file.close(0, &budget);
        assert!(take());
    }

    #[test]
    fn where_nothing_runs_files_stay_open_only_while_few_are() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "1").unwrap();
        let budget = Budget::new(FEW + 2);
        let read = |file: &mut CachedFiles, keep| {
            file.read(&budget, 0, || dir.path().to_owned(), "f", keep, &mut Vec::new()).unwrap();
            file.is_open(0)
        };
        let mut first = CachedFiles::default();
        assert!(read(&mut first, Keep::IfFew));
        for _ in 1..FEW {
            assert!(budget.take(Keep::IfFew));
        }
        assert!(!budget.take(Keep::IfFew), "{FEW} are open");
        assert!(read(&mut first, Keep::IfFew), "it is one of them");
        let mut second = CachedFiles::default();
        assert!(!read(&mut second, Keep::IfFew));
        assert!(read(&mut second, Keep::IfRoom), "something runs there");
        assert!(!read(&mut first, Keep::IfFew), "one more than that is open");
        assert!(read(&mut first, Keep::IfRoom) && budget.take(Keep::IfRoom) && !budget.take(Keep::IfRoom));
    }

    #[test]
    fn a_missing_file_is_no_error_and_a_removed_cgroup_is_one() {
        let budget = Budget::new(9);
        let dir = tempfile::tempdir().unwrap();
        let mut buffer = Vec::new();
        assert_eq!(
            CachedFiles::default()
                .read(&budget, 0, || dir.path().to_owned(), "f", Keep::IfRoom, &mut buffer)
                .unwrap(),
            None
        );
        let gone = dir.path().join("gone");
        let error = CachedFiles::default()
            .read(&budget, 0, || gone.clone(), "f", Keep::IfRoom, &mut buffer)
            .unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }
}
