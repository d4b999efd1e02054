//! Where pods come from. A [`PodSource`] says which pods should run on this node; several of them are merged.
//!
//! The node's own sources are the manifest directory ([`manifests`]) and a URL ([`url`]). Another one
//! implements [`PodSource`] and is added to the list that `nodewarden_hierarchy::sources` builds; nothing
//! else has to know it. A source returns a [`Desired`]. A pod that is missing from it is only ended when its
//! source could be read completely.
//!
//! A source that reports the status of its pods back subscribes to
//! [`PodStatusCache`](crate::status::PodStatusCache).

mod desired;
pub mod manifests;
mod merge;
mod origin;
mod report;
mod sources;
#[cfg(test)]
mod tests;
mod text;
mod uid;
pub mod url;

use std::fmt;
use std::io;

pub use desired::{Deletion, Desired, Over, SourceProblem, SourcedPod, Unread};
pub use origin::PodOrigins;
use report::report;
pub use sources::{Following, PodSources};

/// One source of pods.
pub trait PodSource: fmt::Debug + Send {
    /// A short name that no other source has, such as `manifests`. It is the first part of the origins of the
    /// source's pods (see [`Origin`](nodewarden_model::Origin)).
    fn name(&self) -> &'static str;

    /// Called once before [`PodSource::snapshot`], after a restart of the agent: the origins of the pods that
    /// run. If two origins of the source have a pod of the same name, the one that runs wins.
    fn set_running(&mut self, running: &PodOrigins);

    /// The pods that the source wants now. Called once, before anything is decided: cgroup limits computed
    /// without the pods that run would starve them. A source that cannot be reached returns a value that is
    /// not complete.
    fn snapshot(&mut self) -> Desired;

    /// From now on calls `changes` with each value that differs from the one before, the first time from the
    /// snapshot, until the returned guard is dropped. The calls come from a thread or task of the source's
    /// own.
    ///
    /// # Errors
    /// The thread, or what it watches with, cannot be created.
    fn follow(self: Box<Self>, changes: DesiredSender) -> io::Result<SourceGuard>;
}

/// Receives what a source wants, one value after the other.
pub type DesiredSender = Box<dyn FnMut(Desired) + Send>;

/// Ends the following of a source when dropped.
pub type SourceGuard = Box<dyn Send>;
