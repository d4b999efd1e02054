//! Where pods come from: a manifest directory today; the API server of a cluster can be another one later.
//!
//! A [`Source`] tells [`Desired`]: the pods that should be here, and what it could not read. Pods that come from
//! something that cannot be read right now are not gone.

mod directory;
mod error;
mod manifests;
mod uid;
mod watch;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::sync::Arc;

pub use directory::Directory;
pub use error::SourceError;
pub use manifests::Manifests;
pub use watch::{Watching, watch};

use crate::pod::Pod;

/// Who says which pods should be here.
pub trait Source: fmt::Debug + Send {
    /// What it says now. To be asked once, before anything is decided: levels computed without the pods that run would
    /// starve them.
    fn first(&mut self) -> Desired;

    /// From now on tells `tell` whatever is not as it was told last, on a thread of its own and until the result is
    /// dropped.
    ///
    /// # Errors
    /// The thread or what it watches with cannot be had.
    fn watch(self: Box<Self>, tell: Tell) -> io::Result<Watching>;
}

/// Gets what a source says.
pub type Tell = Box<dyn FnMut(Desired) + Send>;

/// What should be here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Desired {
    pub pods: Vec<Sourced>,
    /// What is wrong, for people: file, place and reason.
    pub problems: Vec<String>,
    /// Origins that are there and cannot be read whole: pods known from them stay.
    pub unreadable: BTreeSet<String>,
    /// The source as a whole cannot be read: every pod known stays.
    pub blind: bool,
}

/// A pod and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Sourced {
    pub pod: Arc<Pod>,
    /// Path of the manifest.
    pub origin: String,
}

impl Desired {
    /// Whether a pod from `origin` that is not among the pods is really gone.
    pub fn is_gone(&self, origin: &str) -> bool {
        !self.blind && !self.unreadable.contains(origin)
    }
}
