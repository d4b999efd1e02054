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

/// What the kernel programs read of a cgroup for this reading (see `ebpf::GroupUsages`), so that the files
/// with the same figures need not be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KnownUsage {
    /// Bytes of memory in use.
    pub memory_bytes: Option<u64>,
    /// Threads and processes that wait to be reaped.
    pub threads: Option<u64>,
}

/// A figure of [`KnownUsage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The memory in use.
    Memory,
    /// The threads.
    Threads,
}

impl KnownUsage {
    /// Puts a figure into a reading. Returns false if it is not known, or if the reading has no such part.
    pub fn put(&self, figure: Known, usage: &mut Usage) -> bool {
        let (to, known) = match figure {
            Known::Memory => (usage.memory.as_mut().map(|memory| &mut memory.usage_bytes), self.memory_bytes),
            Known::Threads => {
                (usage.processes.as_mut().map(|processes| &mut processes.threads), self.threads)
            }
        };
        let Some((to, known)) = to.zip(known) else { return false };
        *to = known;
        true
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
    fn a_figure_that_is_not_known_leaves_the_reading_as_it_is() {
        let known = KnownUsage { memory_bytes: Some(7), threads: None };
        let mut read = usage(9, 2, 1);
        assert!(known.put(Known::Memory, &mut read) && !known.put(Known::Threads, &mut read));
        assert_eq!(read, usage(7, 2, 1));
        let known = KnownUsage { threads: Some(3), ..known };
        let mut none = Usage::default();
        assert!(!known.put(Known::Memory, &mut none) && !known.put(Known::Threads, &mut none));
        assert_eq!(none, Usage::default());
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
