//! Times of first instructions, as containers write them, and of cgroups that are no more.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use crate::fixture::Layout;
use crate::harness::Failure;

/// CLOCK_MONOTONIC in nanoseconds: the clock that containers mark with.
pub fn now() -> Result<u64, Failure> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC);
    let time = time.map_err(|error| Failure::file("CLOCK_MONOTONIC")(error.into()))?;
    Ok(Duration::from(time).as_nanos() as u64)
}

/// Waits for a container's mark, removes it and gives its time.
pub fn take(path: &Path, limit: Duration) -> Result<u64, Failure> {
    let deadline = Instant::now() + limit;
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if let Some(time) = text.strip_suffix('\n').and_then(|line| line.parse().ok()) {
            std::fs::remove_file(path).map_err(Failure::file(path))?;
            return Ok(time);
        }
        if Instant::now() >= deadline {
            return Err(Failure::Unexpected(format!("no mark in {} but {text:?}", path.display())));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// A cgroup's directories, in every hierarchy that has it.
pub fn directories(layout: &Layout, path: &str) -> Vec<PathBuf> {
    let at = layout.hierarchies().iter().map(|h| h.mount.join(path.trim_start_matches('/')));
    at.filter(|directory| directory.is_dir()).collect()
}

/// Waits until none of them is there.
pub fn gone(directories: &[PathBuf], limit: Duration) -> Result<(), Failure> {
    let deadline = Instant::now() + limit;
    while let Some(left) = directories.iter().find(|directory| directory.exists()) {
        if Instant::now() >= deadline {
            return Err(Failure::Unexpected(format!("{} is still there", left.display())));
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}
