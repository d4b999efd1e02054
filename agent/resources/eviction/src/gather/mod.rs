//! What eviction decides on, read anew in the turn that decides.
//!
//! - [`Node`]: memory and processes, through files that stay open: a reading takes some tens of microseconds.
//! - [`disks`]: file systems, by the figures that collection reads too.
//! - [`candidates`]: what pods and their containers use, as far as a ranking needs it.
//!
//! Nothing here writes. All of it blocks on files: it is for a thread, not for an async task.

mod candidates;
mod disks;
mod kept;
mod layers;
mod memory;
mod node;
mod walk;

use std::io;
use std::path::PathBuf;

#[cfg(test)]
pub use candidates::candidate_memory;
pub use candidates::{Subject, candidates, empty_dirs};
pub use disks::{disk_layout, disks};
pub use layers::{Layers, written};
pub(super) use memory::{GroupMemory, of_node};
pub use node::Node;

/// The node cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    #[error("read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} does not tell {missing}", path.display())]
    Lacks { path: PathBuf, missing: &'static str },
}
