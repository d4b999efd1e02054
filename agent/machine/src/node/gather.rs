//! Reads the machine's capacity from the kernel.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::statvfs::statvfs;

use super::Capacity;
use crate::cgroup::control::PageSize;
use crate::cpu_list::CpuList;

/// Why the capacity is not known.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// A file of the kernel cannot be read.
    #[error("{call} {}: {source}", path.display())]
    File {
        /// What was done, as text in the message.
        call: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file has content that the kernel does not write there.
    #[error("{}: {text:?}: expected {expected}", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// Its content.
        text: String,
        /// Description of what the kernel writes there.
        expected: &'static str,
    },
    /// A line of `/proc/meminfo` is missing or not in kB.
    #[error("{} has no {key} in kB", path.display())]
    Meminfo {
        /// The file.
        path: PathBuf,
        /// Name of the line, such as `MemTotal`.
        key: &'static str,
    },
    /// The size of the file system of the pods' local data is not known.
    #[error("statvfs {}: {source}", path.display())]
    FileSystem {
        /// The directory with that data.
        path: PathBuf,
        /// The error of statvfs(3).
        source: Errno,
    },
}

/// The files from which the capacity is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// The list of CPUs that are online.
    pub online_cpus: PathBuf,
    /// /proc/meminfo.
    pub meminfo: PathBuf,
    /// Has one directory per huge page size; does not exist on a kernel without huge pages.
    pub hugepages: PathBuf,
    /// The sysctl kernel.pid_max.
    pub pid_max: PathBuf,
    /// The sysctl kernel.threads-max.
    pub threads_max: PathBuf,
}

impl Default for Sources {
    fn default() -> Self {
        Self::below(Path::new("/"))
    }
}

impl Sources {
    /// The files of a tree that has `proc` and `sys`.
    pub fn below(root: &Path) -> Self {
        Self {
            online_cpus: root.join("sys/devices/system/cpu/online"),
            meminfo: root.join("proc/meminfo"),
            hugepages: root.join("sys/kernel/mm/hugepages"),
            pid_max: root.join("proc/sys/kernel/pid_max"),
            threads_max: root.join("proc/sys/kernel/threads-max"),
        }
    }

    /// Reads everything. `data` is the directory that holds pods' local data: the size of its file system is
    /// the ephemeral storage (the kubelet's root directory has that part).
    ///
    /// # Errors
    /// A file cannot be read or has content that the kernel does not write there.
    pub fn capacity(&self, data: Option<&Path>) -> Result<Capacity, GatherError> {
        let cpus = read(&self.online_cpus)?.trim().to_owned();
        let online = CpuList::parse(&cpus).ok_or_else(|| GatherError::Text {
            path: self.online_cpus.clone(),
            text: cpus.clone(),
            expected: "a list of CPUs like 0-3",
        })?;
        let memory = read(&self.meminfo)?;
        let bytes = |key| {
            meminfo(&memory, key).ok_or_else(|| GatherError::Meminfo { path: self.meminfo.clone(), key })
        };
        Ok(Capacity {
            cpu_milli: u64::from(online.count()) * 1000,
            memory_bytes: bytes("MemTotal")?,
            swap_bytes: bytes("SwapTotal")?,
            hugepages: hugepages(&self.hugepages)?,
            // Both bound the tasks of the whole system (the kubelet's pkg/kubelet/stats/pidlimit).
            pids: number(&self.pid_max)?.min(number(&self.threads_max)?),
            cpus,
            ephemeral_storage_bytes: data.map(file_system_bytes).transpose()?,
        })
    }
}

fn read(path: &Path) -> Result<String, GatherError> {
    fs::read_to_string(path).map_err(|source| GatherError::File {
        call: "read",
        path: path.to_owned(),
        source,
    })
}

/// Bytes of one line of /proc/meminfo. (The procfs crate refuses a file that lacks any of its many lines.)
fn meminfo(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim_end().parse::<u64>().ok()?.checked_mul(1024)
}

/// A file with one number.
fn number(path: &Path) -> Result<u64, GatherError> {
    let text = read(path)?;
    text.trim().parse().map_err(|_| GatherError::Text {
        path: path.to_owned(),
        text: text.trim().to_owned(),
        expected: "a whole number",
    })
}

/// Bytes of preallocated huge pages by size.
fn hugepages(directory: &Path) -> Result<BTreeMap<PageSize, u64>, GatherError> {
    let failed = |source| GatherError::File { call: "read directory", path: directory.to_owned(), source };
    let entries = match fs::read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if let Some(size) = PageSize::of_directory(&entry.file_name().to_string_lossy()) {
            let pages = number(&entry.path().join("nr_hugepages"))?;
            found.insert(size, pages.saturating_mul(size.0));
        }
    }
    Ok(found)
}

/// Size in bytes of the file system that holds `directory`.
fn file_system_bytes(directory: &Path) -> Result<u64, GatherError> {
    let fs = statvfs(directory)
        .map_err(|source| GatherError::FileSystem { path: directory.to_owned(), source })?;
    Ok(fs.blocks().saturating_mul(fs.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       24684096 kB\nMemFree:          100 kB\nSwapTotal:       1024 kB\n";

    /// A machine's files; `other` replaces some or, with an empty text, omits them.
    fn machine(other: &[(&str, &str)]) -> (tempfile::TempDir, Sources) {
        let root = tempfile::tempdir().unwrap();
        let usual = [
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("proc/meminfo", MEMINFO),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n"),
            ("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n"),
            ("proc/sys/kernel/pid_max", "4194304\n"),
            ("proc/sys/kernel/threads-max", "192000\n"),
        ];
        for (path, text) in usual.into_iter().chain(other.iter().copied()) {
            let path = root.path().join(path);
            if text.is_empty() {
                fs::remove_file(path).unwrap();
            } else {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        let sources = Sources::below(root.path());
        (root, sources)
    }

    #[test]
    fn everything_is_read() {
        let (_root, sources) = machine(&[]);
        let expected = Capacity {
            cpu_milli: 2000,
            memory_bytes: 24_684_096 << 10,
            swap_bytes: 1 << 20,
            hugepages: BTreeMap::from([(PageSize(2 << 20), 6 << 20), (PageSize(1 << 30), 0)]),
            pids: 192_000,
            cpus: "0-1".to_owned(),
            ephemeral_storage_bytes: None,
        };
        assert_eq!(sources.capacity(None).unwrap(), expected);
    }

    #[test]
    fn the_smaller_limit_of_processes_holds() {
        let (_root, sources) = machine(&[("proc/sys/kernel/pid_max", "32768\n")]);
        assert_eq!(sources.capacity(None).unwrap().pids, 32_768);
    }

    #[test]
    fn a_kernel_without_huge_pages_has_none() {
        let (root, sources) = machine(&[]);
        fs::remove_dir_all(root.path().join("sys/kernel/mm")).unwrap();
        assert_eq!(sources.capacity(None).unwrap().hugepages, BTreeMap::new());
    }

    #[test]
    fn errors_name_file_and_cause() {
        for (file, text, cause) in [
            ("sys/devices/system/cpu/online", "none\n", "\"none\": expected a list of CPUs like 0-3"),
            ("sys/devices/system/cpu/online", "", "No such file or directory"),
            ("proc/meminfo", "MemFree: 1 kB\n", " has no MemTotal in kB"),
            ("proc/meminfo", "MemTotal: 1 kB\n", " has no SwapTotal in kB"),
            ("proc/sys/kernel/threads-max", "many\n", "\"many\": expected a whole number"),
            ("proc/sys/kernel/pid_max", "", "No such file or directory"),
            ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "x", "\"x\": expected a whole number"),
        ] {
            let (root, sources) = machine(&[(file, text)]);
            let error = sources.capacity(None).unwrap_err().to_string();
            assert!(error.contains(&root.path().join(file).display().to_string()), "{error}");
            assert!(error.contains(cause), "{cause} in {error}");
        }
        let (_root, sources) = machine(&[]);
        let error = sources.capacity(Some(Path::new("/nonexistent/data"))).unwrap_err().to_string();
        assert_eq!(error, "statvfs /nonexistent/data: ENOENT: No such file or directory");
    }

    #[test]
    fn page_sizes() {
        for (name, bytes) in [
            ("hugepages-2048kB", Some(2 << 20)),
            ("hugepages-1048576kB", Some(1 << 30)),
            ("hugepages-64kB", Some(64 << 10)),
            ("hugepages-0kB", None),
            ("hugepages-2MB", None),
            ("uevent", None),
        ] {
            assert_eq!(PageSize::of_directory(name), bytes.map(PageSize), "{name}");
        }
    }

    #[test]
    fn this_machine() {
        let capacity = Sources::default().capacity(Some(Path::new("/"))).unwrap();
        let here = std::thread::available_parallelism().unwrap().get() as u64;
        assert!(capacity.cpu_milli >= here * 1000 && capacity.memory_bytes > 1 << 20 && capacity.pids > 300);
        assert!(capacity.ephemeral_storage_bytes > Some(1 << 20));
    }
}
