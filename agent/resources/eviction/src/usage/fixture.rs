//! For benches: counts a directory as the engine does.

use std::path::Path;
use std::time::{Duration, Instant};

use super::measurer::{Directory, Measurer, Part};

/// What was counted, and how.
#[derive(Debug, Clone, Copy)]
pub struct CountedDirectory {
    /// Bytes on disk.
    pub bytes: u64,
    /// Inodes, the directory itself included.
    pub inodes: u64,
    /// Whether that is everything.
    pub complete: bool,
    /// In how many turns it was counted.
    pub turns: u32,
    /// How long that took.
    pub took: Duration,
}

/// Counts the directory in turns of `turn`, for at most `limit`.
pub fn count_directory(top: &Path, turn: Duration, limit: Duration) -> CountedDirectory {
    let measurer = Measurer::default();
    let part = Part::PodDir;
    let directory = [Directory { uid: "u".into(), part, path: top.to_owned(), skip: Vec::new() }];
    let begun = Instant::now();
    let mut turns = 0;
    loop {
        let used = measurer.measure(&directory, turn).pop().unwrap_or_default();
        turns += 1;
        let took = begun.elapsed();
        if used.is_settled() || took >= limit {
            return CountedDirectory {
                bytes: used.bytes,
                inodes: used.inodes,
                complete: used.complete,
                turns,
                took,
            };
        }
    }
}
