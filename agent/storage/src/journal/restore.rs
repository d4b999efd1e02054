//! Reads the newest events back at start, and repairs what a killed agent left.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Deserialize;

use nodewarden_model::Event;

use super::error::DiskError;
use super::memory::Memory;
use super::{Limits, files};

/// What was read back.
#[derive(Debug)]
pub struct Restored {
    /// Memory with the events that could be read and that fit.
    pub memory: Memory,
    /// Number of lines that are not events.
    pub lines_skipped: u64,
    /// The first call that failed.
    pub error: Option<DiskError>,
}

/// Repairs the newest file and reads as many events as memory holds. Files that cannot be read are left out.
pub fn restore(dir: &Path, limits: &Limits) -> Restored {
    let mut restored = Restored { memory: Memory::new(limits), lines_skipped: 0, error: None };
    if let Err(e) = repair(&dir.join(files::name(0))) {
        restored.error = Some(e);
    }
    // Memory holds about as many bytes of lines. Older events stay on disk, where readers find them.
    let mut left = limits.memory_bytes as u64;
    let mut parts = Vec::new();
    for n in 0..limits.files {
        if left == 0 {
            break;
        }
        match tail(&dir.join(files::name(n)), left) {
            Ok(Some(bytes)) => {
                left = left.saturating_sub(bytes.len() as u64);
                parts.push(bytes);
            }
            Ok(None) => break,
            Err(e) => {
                restored.error.get_or_insert(e);
            }
        }
    }
    while let Some(bytes) = parts.pop() {
        restored.lines_skipped += take(&bytes, &mut restored.memory);
    }
    restored
}

/// Adds the events of these lines to `memory`. Returns the number of lines that are not events.
pub(super) fn take(lines: &[u8], memory: &mut Memory) -> u64 {
    let mut skipped = 0;
    for line in lines.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let event = serde_json::from_slice::<Event>(line);
        if !event.is_ok_and(|e| memory.restore(e)) {
            skipped += 1;
            memory.skip_to(seq_of(line).saturating_add(1));
        }
    }
    skipped
}

/// The number in a line that is not an event of this version (a newer agent's type); 0 without one.
fn seq_of(line: &[u8]) -> u64 {
    #[derive(Deserialize)]
    struct Numbered {
        seq: u64,
    }
    serde_json::from_slice::<Numbered>(line).map_or(0, |n| n.seq)
}

/// Makes the file end with a line end: adds it to a whole last line, and cuts off a torn one.
fn repair(path: &Path) -> Result<(), DiskError> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(DiskError::at("open", path)(e)),
    };
    let len = file.metadata().map_err(DiskError::at("stat", path))?.len();
    let last = last_line(&file, len).map_err(DiskError::at("read", path))?;
    if last.is_empty() {
        return Ok(());
    }
    if serde_json::from_slice::<Event>(&last).is_ok() && file.write_all_at(b"\n", len).is_ok() {
        return Ok(());
    }
    file.set_len(len - last.len() as u64).map_err(DiskError::at("truncate", path))
}

/// The text after the last line end.
fn last_line(file: &File, len: u64) -> io::Result<Vec<u8>> {
    const BLOCK: u64 = 64 << 10;
    let mut found = Vec::new();
    let mut end = len;
    while end > 0 {
        let start = end.saturating_sub(BLOCK);
        let mut block = vec![0; (end - start) as usize];
        file.read_exact_at(&mut block, start)?;
        if let Some(at) = block.iter().rposition(|b| *b == b'\n') {
            block.drain(..=at);
            block.append(&mut found);
            return Ok(block);
        }
        block.append(&mut found);
        found = block;
        end = start;
    }
    Ok(found)
}

/// The whole lines among the last `most` bytes; `None` without the file.
fn tail(path: &Path, most: u64) -> Result<Option<Vec<u8>>, DiskError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(DiskError::at("open", path)(e)),
    };
    let len = file.metadata().map_err(DiskError::at("stat", path))?.len();
    let start = len.saturating_sub(most);
    let mut bytes = vec![0; (len - start) as usize];
    file.read_exact_at(&mut bytes, start).map_err(DiskError::at("read", path))?;
    if start > 0 {
        let cut = bytes.iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| at + 1);
        bytes.drain(..cut);
    }
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seq: u64) -> String {
        format!(
            "{{\"seq\":{seq},\"time\":\"2026-01-01T00:00:00Z\",\"cgroup\":\"/a\",\"type\":\"cgroupCreated\"}}\n"
        )
    }

    fn seqs(restored: &Restored) -> Vec<u64> {
        restored.memory.from(0, usize::MAX).events.iter().map(|e| e.seq).collect()
    }

    #[test]
    fn a_damaged_file_is_repaired_and_read() {
        let whole = line(1) + &line(2);
        for (text, expected, repaired) in [
            (String::new(), vec![], String::new()),
            (whole.clone(), vec![1, 2], whole.clone()),
            // Torn in the middle, cut to one byte, only the line end missing.
            (whole.clone() + &line(3)[..30], vec![1, 2], whole.clone()),
            (whole.clone() + "{", vec![1, 2], whole.clone()),
            (whole.clone() + line(3).trim_end(), vec![1, 2, 3], whole.clone() + &line(3)),
            // Nothing but a torn line, longer than a block.
            ("x".repeat(200_000), vec![], String::new()),
            (whole.clone() + &"\0".repeat(70_000), vec![1, 2], whole.clone()),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("events.jsonl");
            std::fs::write(&path, &text).unwrap();
            let restored = restore(dir.path(), &Limits::default());
            assert_eq!(seqs(&restored), expected);
            assert!(restored.error.is_none());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), repaired);
        }
    }

    #[test]
    fn bad_lines_are_skipped_and_their_numbers_stay_taken() {
        let dir = tempfile::tempdir().unwrap();
        let text =
            line(1) + "rubbish\n\n" + "{\"seq\":9,\"type\":\"fromTheFuture\"}\n" + &line(5) + &line(10);
        std::fs::write(dir.path().join("events.jsonl"), text).unwrap();
        let restored = restore(dir.path(), &Limits::default());
        assert_eq!((seqs(&restored), restored.lines_skipped), (vec![1, 10], 3));
        assert_eq!(restored.memory.next_seq(), 11);
    }

    #[test]
    fn the_newest_events_of_several_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("events.2.jsonl"), line(1) + &line(2)).unwrap();
        std::fs::write(dir.path().join("events.1.jsonl"), line(3) + &line(4)).unwrap();
        std::fs::write(dir.path().join("events.jsonl"), line(5)).unwrap();
        let all = restore(dir.path(), &Limits::default());
        assert_eq!(seqs(&all), [1, 2, 3, 4, 5]);
        let few = restore(dir.path(), &Limits { memory_events: 2, ..Limits::default() });
        assert_eq!(seqs(&few), [4, 5]);
    }
}
