//! Finds the start of the last lines of a log by reading backwards.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use memchr::memrchr_iter;

use super::entry::{HEAD, ends_line};

const BLOCK: u64 = 64 << 10;

/// The last lines of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Last {
    /// Offset at which the last lines begin.
    pub offset: u64,
    /// Number of lines; fewer than requested if the file has no more.
    pub lines: u64,
}

/// Finds the last `wanted` lines of the container's output before `end`. Several partial entries of one line
/// count as one, whereas the kubelet counts entries.
pub fn last_lines(file: &File, end: u64, wanted: u64) -> io::Result<Last> {
    let mut last = Last { offset: end, lines: 0 };
    if wanted == 0 || end == 0 {
        return Ok(last);
    }
    // Longer than a block, so that the head of an entry at the end of the block is complete.
    let mut buffer = vec![0; BLOCK as usize + HEAD];
    let mut upper = end;
    while upper > 0 {
        let lower = upper.saturating_sub(BLOCK);
        let length = (upper - lower) as usize;
        let seen = length + ((end - upper).min(HEAD as u64) as usize);
        file.read_exact_at(&mut buffer[..seen], lower)?;
        let breaks = memrchr_iter(b'\n', &buffer[..length]).map(|at| at + 1);
        for start in breaks.chain((lower == 0).then_some(0)) {
            let offset = lower + start as u64;
            if offset == end {
                continue;
            }
            // The last entry of the file is taken as the end of a line in any case.
            if last.lines == 0 || ends_line(&buffer[start..seen.min(start + HEAD)]) {
                if last.lines == wanted {
                    return Ok(last);
                }
                last.lines += 1;
            }
            last.offset = offset;
        }
        upper = lower;
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn file(text: &str) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    /// The same result by reading from the beginning.
    fn naive(text: &str, wanted: u64) -> Last {
        let mut starts = Vec::new();
        let (mut offset, mut inside) = (0, false);
        for line in text.split_inclusive('\n') {
            if !inside {
                starts.push(offset);
            }
            inside = !ends_line(line.as_bytes());
            offset += line.len() as u64;
        }
        let lines = wanted.min(starts.len() as u64);
        let at = starts.len() - lines as usize;
        Last { offset: starts.get(at).copied().unwrap_or(offset), lines }
    }

    #[test]
    fn the_last_lines_are_found() {
        let line = |tag: &str, text: &str| format!("2026-11-21T04:00:01.000000000Z stdout {tag} {text}\n");
        let log = [line("F", "one"), line("P", "tw"), line("F", "o"), line("P", "thr")].concat();
        let starts = [log.len(), log.len() - line("P", "thr").len(), line("F", "one").len(), 0];
        for (wanted, start) in starts.into_iter().enumerate() {
            let found = last_lines(&file(&log), log.len() as u64, wanted as u64).unwrap();
            assert_eq!(found, Last { offset: start as u64, lines: wanted as u64 });
        }
        let all = last_lines(&file(&log), log.len() as u64, 9).unwrap();
        assert_eq!(all, Last { offset: 0, lines: 3 });
        assert_eq!(last_lines(&file(""), 0, 9).unwrap(), Last { offset: 0, lines: 0 });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_same_lines_as_when_read_from_the_beginning(
            lines in prop::collection::vec((any::<bool>(), 0usize..20_000), 0..40),
            wanted in 0u64..45,
            ended: bool,
        ) {
            let mut log: String = lines
                .iter()
                .map(|(partial, length)| {
                    let tag = if *partial { "P" } else { "F" };
                    format!("2026-11-21T04:00:01.000000000Z stdout {tag} {}\n", "x".repeat(*length))
                })
                .collect();
            if !ended {
                log.pop();
            }
            prop_assert_eq!(last_lines(&file(&log), log.len() as u64, wanted).unwrap(), naive(&log, wanted));
        }
    }
}
