//! Measures how long counting a pod's files takes, and how much memory: many small files in many directories,
//! and as many names in one.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nodewarden_eviction::fixture::count_directory;

use super::{Bench, Bound, Figure, Run};
use crate::harness::Failure;
use crate::{ensure, ensure_eq};

pub struct DiskUse;

/// Files of a directory among many.
const EACH: usize = 500;
/// One file in so many has a page of content; the others are empty.
const WITH_CONTENT: usize = 100;
/// As the engine counts before it reads the file system again.
const TURN: Duration = Duration::from_secs(1);
/// Counting is given up after this time.
const LIMIT: Duration = Duration::from_secs(600);

impl Bench for DiskUse {
    fn name(&self) -> &'static str {
        "disk-use"
    }

    fn about(&self) -> &'static str {
        "time and memory to count a million small files in many directories, and in one, against du"
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure> {
        let files = if run.quick { 100_000 } else { 1_000_000 };
        let top = run.context.temp.join("files");
        let mut figures = Vec::new();
        for (how, each) in [("in directories", EACH), ("in one directory", files)] {
            let tmpfs = Tmpfs::mount(&top)?;
            run.progress(&format!("makes {files} files {how}"));
            make(&top, files, each)?;
            run.progress(&format!("counts {files} files {how}"));
            figures.extend(measure(&top, files, each, how)?);
            drop(tmpfs);
        }
        Ok(figures)
    }
}

fn measure(top: &Path, files: usize, each: usize, how: &str) -> Result<[Figure; 2], Failure> {
    let before = memory("VmRSS:")?;
    reset_peak()?;
    let found = count_directory(top, TURN, LIMIT);
    let grown = memory("VmHWM:")?.saturating_sub(before);
    ensure!(found.complete, "{found:?}: not counted within {LIMIT:?}");
    // The top, the directories, and the files.
    let inodes = 1 + files.div_ceil(each) + files;
    ensure_eq!(found.inodes, inodes as u64, "inodes {how}");
    let begun = Instant::now();
    ensure_eq!(found.bytes, du(top)?, "bytes {how}, compared with du");
    let du_took = begun.elapsed();
    eprintln!("disk-use: {how}: {} turns; du needs {:.1} s", found.turns, du_took.as_secs_f64());
    let million = files as f64 / 1e6;
    let seconds = found.took.as_secs_f64() / million;
    let name = |what| format!("{what}, {how}");
    Ok([
        Figure::one("disk-use", name("count a million files"), "s", seconds, Bound::p50(20.0)),
        Figure::one("disk-use", name("memory"), "MiB", grown as f64 / 1024.0, Bound::p50(8.0)),
    ])
}

/// Makes the files in directories of `each`, on four threads.
fn make(top: &Path, files: usize, each: usize) -> Result<(), Failure> {
    const THREADS: usize = 4;
    let directories = files.div_ceil(each);
    let directory = |number: usize| top.join(format!("d{number}"));
    let file = |number: usize| directory(number / each).join(format!("{number}"));
    for number in 0..directories {
        fs::create_dir(directory(number)).map_err(Failure::file(top))?;
    }
    let part = |first: usize| {
        (first..files).step_by(THREADS).try_for_each(|number| {
            if number.is_multiple_of(WITH_CONTENT) {
                fs::write(file(number), "x")
            } else {
                File::create(file(number)).map(drop)
            }
        })
    };
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..THREADS).map(|first| scope.spawn(move || part(first))).collect();
        parts.into_iter().try_for_each(|made| match made.join() {
            Ok(made) => made.map_err(Failure::file(top)),
            Err(_) => Err(Failure::Unexpected("a panic while files were made".into())),
        })
    })
}

/// Bytes according to du(1).
fn du(top: &Path) -> Result<u64, Failure> {
    let ran = Command::new("du").args(["--summarize", "--block-size=1"]).arg(top).output();
    let text = String::from_utf8_lossy(&ran.map_err(Failure::file("du"))?.stdout).into_owned();
    let bytes = text.split_whitespace().next().and_then(|bytes| bytes.parse().ok());
    bytes.ok_or_else(|| Failure::Unexpected(format!("du says {text:?}")))
}

/// A line of /proc/self/status, in KiB.
fn memory(field: &str) -> Result<u64, Failure> {
    let path = "/proc/self/status";
    let text = fs::read_to_string(path).map_err(Failure::file(path))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.ok_or_else(|| Failure::Unexpected(format!("{path} has no {field}")))
}

/// From now on `VmHWM` is the peak since now (proc(5), clear_refs).
fn reset_peak() -> Result<(), Failure> {
    let path = "/proc/self/clear_refs";
    fs::write(path, "5").map_err(Failure::file(path))
}

/// A tmpfs of the bench's own: a million files take minutes on a disk. Unmounted when dropped.
struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    fn mount(at: &'a Path) -> Result<Self, Failure> {
        fs::create_dir_all(at).map_err(Failure::file(at))?;
        let options = Some("size=1g,nr_inodes=0");
        let mounted = mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), options);
        mounted.map_err(|errno| Failure::file(at)(errno.into()))?;
        Ok(Self(at))
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        // What remains mounted is in the temporary directory's own report.
        let _ = umount2(self.0, MntFlags::MNT_DETACH);
    }
}
