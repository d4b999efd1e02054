//! The latest writes to limits of cgroups, until they are asked for.

use std::collections::VecDeque;

use nodewarden_model::LimitWrite;

/// How many are kept. A container that starts makes up to four.
const KEPT: usize = 1024;

/// The last write to each file, oldest first.
#[derive(Debug, Default)]
pub struct LimitWrites(VecDeque<LimitWrite>);

impl LimitWrites {
    /// Adds a write, in place of an earlier one with the same text to the same file; beyond the bound in
    /// place of the oldest.
    pub fn add(&mut self, write: LimitWrite) {
        let same =
            |own: &LimitWrite| (own.cgroup, own.file, &own.text) == (write.cgroup, write.file, &write.text);
        if let Some(at) = self.0.iter().rposition(same) {
            self.0.remove(at);
        } else if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back(write);
    }

    /// Takes all out, oldest first.
    pub fn take(&mut self) -> Vec<LimitWrite> {
        std::mem::take(&mut self.0).into()
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
    fn beyond_the_bound_the_oldest_goes() {
        let mut writes = LimitWrites::default();
        for i in 0..KEPT as u32 + 2 {
            writes.add(write(u64::from(i), "5", i));
        }
        let pids = pids(&mut writes);
        assert_eq!((pids.len(), pids[0]), (KEPT, 2));
    }
}
