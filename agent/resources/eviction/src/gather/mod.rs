//! Reads the figures that eviction decides on, in the same pass that decides.
//!
//! - [`Node`]: memory and processes, through files that stay open: a reading takes some tens of microseconds.
//! - [`mod@disks`]: file systems, from the figures that garbage collection reads too.
//! - [`mod@candidates`]: memory and processes of pods and their containers, as far as a ranking requires
//!   them. What they use on disks is counted by [`crate::usage`].
//!
//! Nothing here writes. Everything blocks on files: call it on a thread, not in an async task.

mod candidates;
mod disks;
mod memory;
mod node;
mod open_file;

use std::io;
use std::path::PathBuf;

#[cfg(test)]
pub use candidates::candidate_memory;
pub use candidates::{
    Subject, candidates, container_group, containers, groups_below, is_of_container, pods, pods_with_usage,
    subtract_inactive_file,
};
pub use disks::{disks, leave_out_layers_elsewhere, used_of};
pub(super) use memory::{GroupMemory, of_node};
pub use node::Node;

/// Memory of the node cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// A file cannot be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file lacks a line.
    #[error("{} has no {missing}", path.display())]
    Lacks {
        /// The file.
        path: PathBuf,
        /// Key of the missing line.
        missing: &'static str,
    },
}
