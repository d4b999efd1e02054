//! What is known of a cgroup between two readings.

use std::num::NonZeroU64;

use nodewarden_cri::Named;
use nodewarden_machine::cgroup::GroupReader;

use super::packed::{KeptCounters, KeptUsage};
use super::registry::Group;

/// The last reading of a cgroup. There are thousands of these values, so they are small.
#[derive(Default)]
pub(crate) struct Remembered {
    /// Of the cgroup, see [`Group::generation`].
    pub generation: u64,
    /// The last reading of the kernel programs' counters.
    pub counters: KeptCounters,
    /// The last reading of its files.
    pub usage: KeptUsage,
    /// Of its files; `None` before they were read and after the cgroup was removed.
    pub reader: Option<Box<GroupReader>>,
    /// Its id in the pids controller's hierarchy, if that is not the memory controller's too; `None` before
    /// it was looked up.
    pub pids_cgroup: Option<NonZeroU64>,
    /// Whether a task of it ran between the last two readings of the counters, as far as that is counted.
    pub ran: bool,
    /// The cgroup's identity with its names, once all are known.
    pub named: Option<Named>,
    /// The last round of the sampler in which the cgroup was there.
    pub seen: u32,
}

impl Remembered {
    /// Begins a reading of the counters: what is of an earlier cgroup of this path is forgotten.
    pub fn begin(&mut self, group: &Group) {
        if self.generation != group.generation {
            *self = Self { generation: group.generation, seen: self.seen, ..Self::default() };
        }
        // Unless it is counted.
        self.ran = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_takes_little_memory() {
        assert!(size_of::<Remembered>() <= 104, "{}", size_of::<Remembered>());
    }
}
