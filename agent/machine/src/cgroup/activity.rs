//! What is known of a cgroup before its files are read. What runs nowhere in a pod changes little there, and
//! what does change shows in the files of the pod's own cgroup, which count what is below: while their sums
//! stay the same, nothing below is read.

use nodewarden_model::Usage;

/// What has run in a cgroup or below it since the last reading that a client asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// A task has run or runs now, or that is not known.
    Ran,
    /// No task.
    None,
    /// No task of the whole pod, which this cgroup is a part of.
    NoneInPod {
        /// Whether the pod's own cgroup has the same [`Sums`] as at that reading.
        same_sums: bool,
    },
}

impl Activity {
    /// Whether nothing has run.
    pub fn is_none(self) -> bool {
        self != Self::Ran
    }
}

/// What may differ although nothing has run, as a cgroup's files count it with everything below it. The
/// kernel adds each change to all cgroups above at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// Bytes in use.
    memory: u64,
    /// Threads and processes that wait to be reaped.
    threads: u64,
    /// Bytes and operations of all devices: counters, so this sum stays the same only if each of them does.
    io: u64,
}

impl Sums {
    /// The sums of a reading; `None` if one of them is not counted.
    pub fn of(usage: &Usage) -> Option<Self> {
        let io = usage.io.iter().flat_map(|io| [io.read_bytes, io.write_bytes, io.reads, io.writes]);
        Some(Self {
            memory: usage.memory.as_ref()?.usage_bytes,
            threads: usage.processes?.threads,
            io: io.fold(0, u64::wrapping_add),
        })
    }

    /// Whether they can have a part like this in them: not where v1 counts memory without what is below
    /// (`memory.use_hierarchy` 0, before Linux 5.11).
    pub fn can_contain(&self, part: &Usage) -> bool {
        let memory = part.memory.as_ref().is_none_or(|memory| memory.usage_bytes <= self.memory);
        memory && part.processes.is_none_or(|processes| processes.threads <= self.threads)
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_model::{IoUsage, MemoryUsage, ProcessUsage};

    use super::*;

    fn usage(memory: u64, threads: u64, writes: u64) -> Usage {
        Usage {
            memory: Some(MemoryUsage { usage_bytes: memory, ..MemoryUsage::default() }),
            processes: Some(ProcessUsage { threads, max: None }),
            io: vec![IoUsage { writes, ..IoUsage::default() }],
            ..Usage::default()
        }
    }

    #[test]
    fn each_sum_shows_a_change() {
        let of = |usage: Usage| Sums::of(&usage);
        assert!(of(usage(9, 2, 1)).is_some() && of(usage(9, 2, 1)) == of(usage(9, 2, 1)));
        for other in [usage(8, 2, 1), usage(9, 3, 1), usage(9, 2, 2)] {
            assert_ne!(of(other), of(usage(9, 2, 1)));
        }
        assert_eq!(of(Usage { processes: None, ..usage(9, 2, 1) }), None);
        assert_eq!(of(Usage { memory: None, ..usage(9, 2, 1) }), None);
    }

    #[test]
    fn a_sum_that_is_less_than_a_part_is_no_sum() {
        let sums = Sums::of(&usage(9, 2, 0)).unwrap();
        assert!(sums.can_contain(&usage(9, 2, 0)) && sums.can_contain(&Usage::default()));
        assert!(!sums.can_contain(&usage(10, 2, 0)) && !sums.can_contain(&usage(9, 3, 0)));
    }
}
