//! The latest writes to limits of cgroups, until they are asked for.

use std::collections::{HashMap, VecDeque};

use nodewarden_model::LimitWrite;

/// How many are kept. A container that starts makes up to four.
const KEPT: usize = 1024;

/// Of how many files it is known what stood there last.
const KNOWN: usize = 16 * KEPT;

/// The last write to each file, oldest first.
#[derive(Debug, Default)]
pub struct LimitWrites {
    kept: VecDeque<LimitWrite>,
    /// What [`Self::add_seen`] has last seen in which file.
    seen: HashMap<(u64, &'static str), String>,
}

impl LimitWrites {
    /// Adds a write, in place of an earlier one with the same text to the same file; beyond the bound in
    /// place of the oldest.
    pub fn add(&mut self, write: LimitWrite) {
        let same =
            |own: &LimitWrite| (own.cgroup, own.file, &own.text) == (write.cgroup, write.file, &write.text);
        if let Some(at) = self.kept.iter().rposition(same) {
            self.kept.remove(at);
        } else if self.kept.len() >= KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(write);
    }

    /// Adds a write whose text was read from the file after it, unless the same stood there before: a process
    /// that opens the file to write it (`O_TRUNC`) and is refused looks like one that has.
    pub fn add_seen(&mut self, write: LimitWrite) {
        let file = (write.cgroup, write.file);
        if self.seen.get(&file) == Some(&write.text) {
            return;
        }
        if self.seen.len() >= KNOWN {
            self.seen.clear();
        }
        self.seen.insert(file, write.text.clone());
        self.add(write);
    }

    /// Takes all out, oldest first.
    pub fn take(&mut self) -> Vec<LimitWrite> {
        std::mem::take(&mut self.kept).into()
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_model::Writer;

    use super::*;

    fn write(cgroup: u64, text: &str, pid: u32) -> LimitWrite {
        let writer = Writer { pid, ..Writer::default() };
        LimitWrite { cgroup, file: "memory.max", text: text.into(), writer }
    }

    fn pids(writes: &mut LimitWrites) -> Vec<u32> {
        writes.take().iter().map(|write| write.writer.pid).collect()
    }

    #[test]
    fn the_last_write_of_a_value_to_a_file_is_kept() {
        let mut writes = LimitWrites::default();
        for (cgroup, text, pid) in [(1, "5", 10), (2, "5", 11), (1, "6", 12), (1, "5", 13)] {
            writes.add(write(cgroup, text, pid));
        }
        assert_eq!(pids(&mut writes), [11, 12, 13]);
        assert!(writes.take().is_empty(), "they are taken once");
    }

    #[test]
    fn only_who_changed_what_stands_in_a_file_has_written_it() {
        let mut writes = LimitWrites::default();
        for (cgroup, text, pid) in [(1, "5", 10), (1, "5", 11), (2, "5", 12)] {
            writes.add_seen(write(cgroup, text, pid));
        }
        assert_eq!(pids(&mut writes), [10, 12]);
        for (text, pid) in [("5", 13), ("6", 14), ("5", 15)] {
            writes.add_seen(write(1, text, pid));
        }
        assert_eq!(pids(&mut writes), [14, 15]);
        for cgroup in 0..KNOWN as u64 + 1 {
            writes.add_seen(write(cgroup, "7", 16));
            assert!(writes.seen.len() <= KNOWN);
        }
    }

    #[test]
    fn beyond_the_bound_the_oldest_goes() {
        let mut writes = LimitWrites::default();
        for i in 0..KEPT as u32 + 2 {
            writes.add(write(u64::from(i), "5", i));
        }
        let pids = pids(&mut writes);
        assert_eq!((pids.len(), pids[0]), (KEPT, 2));
    }
}
