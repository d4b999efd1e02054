//! Names of the journal's files, and the renames of a rotation. Pure functions.

use std::path::{Path, PathBuf};

/// The file being written (`n` = 0) or the `n`th older one.
pub fn name(n: u32) -> String {
    if n == 0 { "events.jsonl".to_owned() } else { format!("events.{n}.jsonl") }
}

/// The number of one of the journal's files; `None` for any other name.
pub fn number(name: &str) -> Option<u32> {
    if name == "events.jsonl" {
        return Some(0);
    }
    let n = name.strip_prefix("events.")?.strip_suffix(".jsonl")?.parse().ok()?;
    (n > 0 && name == self::name(n)).then_some(n)
}

/// The steps that make room for a new file: first the file to remove, then renames in order.
pub fn rotation(dir: &Path, files: u32) -> (PathBuf, Vec<(PathBuf, PathBuf)>) {
    let last = files.saturating_sub(1);
    let renames = (0..last).rev().map(|n| (dir.join(name(n)), dir.join(name(n + 1)))).collect();
    (dir.join(name(last)), renames)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_converted_both_ways() {
        for n in [0, 1, 2, 99] {
            assert_eq!(number(&name(n)), Some(n));
        }
        for other in ["events.0.jsonl", "events.01.jsonl", "events.x.jsonl", "events.jsonl.bak", "next-seq"] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    #[test]
    fn rotates_oldest_first() {
        let d = Path::new("/d");
        let (drop, renames) = rotation(d, 3);
        assert_eq!(drop, d.join("events.2.jsonl"));
        assert_eq!(
            renames,
            [
                (d.join("events.1.jsonl"), d.join("events.2.jsonl")),
                (d.join("events.jsonl"), d.join("events.1.jsonl"))
            ]
        );
        assert_eq!(rotation(d, 1), (d.join("events.jsonl"), vec![]));
    }
}
