//! Compares files of cgroups with expected values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::recording::Files;
use crate::fixture::Layout;
use crate::harness::{Context, Failure, kernel_version};
use crate::page::whole_pages;

/// A file with a value other than expected.
#[derive(Debug)]
pub struct Wrong {
    pub path: String,
    pub file: String,
    pub found: String,
    pub expected: String,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, file, found, expected } = self;
        write!(f, "{path} {file} is {found:?}, not {expected:?}")
    }
}

/// Fails if there are wrong values, and shows the first five.
pub fn fail_if_any(what: &str, wrong: &[Wrong]) -> Result<(), Failure> {
    if wrong.is_empty() {
        return Ok(());
    }
    let first: Vec<_> = wrong.iter().take(5).map(ToString::to_string).collect();
    Err(Failure::Unexpected(format!("{what}: {} values are wrong: {}", wrong.len(), first.join("; "))))
}

/// Compares the files of one cgroup. Skips only files that this kernel cannot have.
pub fn files(context: &Context, path: &str, expected: &Files) -> Vec<Wrong> {
    let here = |(file, recorded): (&String, &String)| {
        let expected = in_whole_pages(file, recorded);
        let found = match place(&context.layout, path, file).map(std::fs::read_to_string) {
            Some(Ok(text)) => plain(&text),
            _ if cannot_be(&context.layout, file) => return None,
            Some(Err(error)) => error.to_string(),
            None => "no such controller".into(),
        };
        (found != expected).then(|| Wrong { path: path.into(), file: file.clone(), found, expected })
    };
    expected.iter().filter_map(here).collect()
}

/// A recorded value as this kernel shows it: the recordings are of 4 KiB pages, and a limit in bytes is whole
/// pages.
fn in_whole_pages(file: &str, recorded: &str) -> String {
    const IN_PAGES: [&str; 7] = [
        "memory.limit_in_bytes",
        "memory.memsw.limit_in_bytes",
        "memory.max",
        "memory.min",
        "memory.low",
        "memory.high",
        "memory.swap.max",
    ];
    match recorded.parse() {
        Ok(bytes) if IN_PAGES.contains(&file) => whole_pages(bytes).to_string(),
        _ => recorded.to_owned(),
    }
}

/// The content of a file with single spaces between its words.
pub fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The path of a cgroup's file; `None` without the controller.
pub fn place(layout: &Layout, path: &str, file: &str) -> Option<PathBuf> {
    let controller = file.split('.').next()?;
    let hierarchy = layout.controller(controller)?;
    Some(hierarchy.mount.join(path.trim_start_matches('/')).join(file))
}

/// Whether a file may be missing: of a huge page size that this CPU lacks, of an optional controller, or
/// newer than this kernel.
fn cannot_be(layout: &Layout, file: &str) -> bool {
    if file == "cpu.idle" && kernel_version().is_some_and(|version| version < CPU_IDLE_SINCE) {
        return true;
    }
    let controller = file.split('.').next().unwrap_or_default();
    if layout.controller(controller).is_none() {
        return matches!(controller, "hugetlb" | "pids" | "cpuset");
    }
    file.split('.').nth(1).is_some_and(|size| controller == "hugetlb" && !has_page_size(size))
}

/// The first Linux with `cpu.idle`.
const CPU_IDLE_SINCE: [u32; 2] = [5, 15];

/// Whether the kernel has huge pages of this size, spelled as in the names of cgroup files (`2MB`).
pub fn has_page_size(size: &str) -> bool {
    let kib = match size {
        "1GB" => 1 << 20,
        "2MB" => 2 << 10,
        _ => return true,
    };
    Path::new("/sys/kernel/mm/hugepages").join(format!("hugepages-{kib}kB")).exists()
}

/// The present limits that a reconcile must keep, of every cgroup at or below `path`, by (path, file).
pub fn limits_now(layout: &Layout, path: &str) -> BTreeMap<(String, String), String> {
    const LIMIT_FILES: [&str; 18] = [
        "cpu.shares",
        "cpu.cfs_quota_us",
        "cpu.cfs_period_us",
        "cpu.weight",
        "cpu.max",
        "memory.limit_in_bytes",
        "memory.max",
        "memory.min",
        "memory.low",
        "memory.high",
        "memory.swap.max",
        "memory.oom.group",
        "pids.max",
        "hugetlb.2MB.max",
        "hugetlb.1GB.max",
        "hugetlb.2MB.limit_in_bytes",
        "hugetlb.1GB.limit_in_bytes",
        "cpu.idle",
    ];
    let mut limits = BTreeMap::new();
    let mut paths = vec![path.to_owned()];
    while let Some(path) = paths.pop() {
        for file in LIMIT_FILES {
            if let Some(Ok(text)) = place(layout, &path, file).map(std::fs::read_to_string) {
                limits.insert((path.clone(), file.to_owned()), plain(&text));
            }
        }
        paths.extend(children(layout, &path));
    }
    limits
}

/// The paths of a cgroup's children in any hierarchy.
pub fn children(layout: &Layout, path: &str) -> std::collections::BTreeSet<String> {
    let entries = |mount: &Path| {
        std::fs::read_dir(mount.join(path.trim_start_matches('/'))).into_iter().flatten().flatten()
    };
    layout
        .hierarchies()
        .iter()
        .flat_map(|h| entries(&h.mount))
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| format!("{}/{}", path.trim_end_matches('/'), entry.file_name().to_string_lossy()))
        .collect()
}
