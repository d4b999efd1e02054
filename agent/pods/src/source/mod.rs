//! Where pods come from: a manifest directory today; the API server of a cluster can be another one later.
//!
//! A [`Source`] tells [`Desired`]: the pods that should be here, and what it could not read. Pods that come from
//! something that cannot be read right now are not gone.

mod changes;
mod choice;
mod directory;
mod error;
mod manifests;
mod uid;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::Arc;

pub use directory::Directory;
pub use error::SourceError;
pub use manifests::Manifests;
pub use watch::Watching;

use nodewarden_manifest::Pod;

/// Who says which pods should be here.
pub trait Source: fmt::Debug + Send {
    /// Before [`Source::first`], after a restart: where the pods that run come from. Such a pod keeps its place when
    /// another origin has one of its name too.
    fn stand(&mut self, standing: Standing);

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
#[derive(Debug, Clone)]
pub struct Sourced {
    pub pod: Arc<Pod>,
    /// Path of the manifest.
    pub origin: String,
}

impl PartialEq for Sourced {
    fn eq(&self, other: &Self) -> bool {
        self.origin == other.origin && (Arc::ptr_eq(&self.pod, &other.pod) || self.pod == other.pod)
    }
}

/// Which origin each pod comes from, by namespace and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing(BTreeMap<String, BTreeMap<String, Arc<str>>>);

impl Standing {
    pub fn set(&mut self, namespace: &str, name: &str, origin: &str) {
        self.0.entry(namespace.to_owned()).or_default().insert(name.to_owned(), origin.into());
    }

    fn is(&self, namespace: &str, name: &str, origin: &str) -> bool {
        self.0.get(namespace).and_then(|names| names.get(name)).is_some_and(|o| **o == *origin)
    }
}

impl Desired {
    /// Whether a pod from `origin` that is not among the pods is really gone.
    pub fn is_gone(&self, origin: &str) -> bool {
        !self.blind && !self.unreadable.contains(origin)
    }
}
