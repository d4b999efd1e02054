//! Probes in a pod's life: which of its containers are probed now, and how they stand by what is published of them.
//!
//! A result is published once it is on disk, so whoever saw it finds it again after a restart of the agent. What is
//! [`Published`] is all that decisions and the board know of probes.

mod follow;
mod published;
mod sink;
#[cfg(test)]
pub(super) mod tests;

use super::Record;
use nodewarden_pods::probes::Watched;

pub use follow::{alive, ended, exited, follow, forget, stop};
pub use published::{NOTHING, Published, specs};

/// Of a pod whose containers have probes, or of which the kernel has just seen one end.
#[derive(Debug, Default)]
pub struct Probing {
    pub published: Published,
    /// Containers that are probed.
    pub watched: Vec<Watched>,
}

impl Probing {
    /// With what an earlier agent knew; none of most pods.
    pub fn of(record: &Record) -> Option<Box<Self>> {
        let published = Published::of(record);
        (published != NOTHING).then(|| Box::new(Self { published, watched: Vec::new() }))
    }
}
