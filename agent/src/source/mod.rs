//! Where pods come from: a manifest directory today; the API server of a cluster can be another one later.
//!
//! A source tells [`Desired`]: the pods that should be here, and what it could not read. Pods that come from something
//! that cannot be read right now are not gone.

mod error;
mod manifests;
mod uid;
mod watch;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use error::SourceError;
pub use manifests::Manifests;
pub use watch::{Watching, report, watch};

use crate::pod::Pod;

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
