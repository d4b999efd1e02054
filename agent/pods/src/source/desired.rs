//! What one source, or all of them together, want.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use nodewarden_manifest::Pod;
use nodewarden_model::{ApiState, Origin, PodPhase};

/// The pods that should run here, and what could not be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Desired {
    /// The pods, in the order of the source. Shared, since the last list stays with the source, with all
    /// sources together and with the lifecycle.
    pub pods: Arc<[SourcedPod]>,
    /// What is wrong, for people.
    pub problems: Vec<SourceProblem>,
    /// What could not be read completely: pods known from there stay.
    pub unread: Unread,
}

/// A pod and where it comes from.
#[derive(Debug, Clone)]
pub struct SourcedPod {
    /// The pod, with its uid.
    pub pod: Arc<Pod>,
    /// The place that the pod is written in.
    pub origin: Origin,
    /// The source has the pod still, and wants it to end. Boxed as the next one, since there are several
    /// lists of all pods, and few have it.
    pub deletion: Option<Box<Deletion>>,
    /// The source says that the pod has ended for good: it is not started (again).
    pub over: Option<Box<Over>>,
    /// What the API server knows of the pod; `None` for other sources.
    pub api: Option<Arc<ApiState>>,
}

/// A terminal phase that the source gives a pod (`status` of a pod at the API server).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// Succeeded or Failed.
    pub phase: PodPhase,
    /// `status.reason`; may be empty.
    pub reason: String,
    /// `status.message`; may be empty.
    pub message: String,
}

/// A request to end a pod (`metadata.deletionTimestamp` and `metadata.deletionGracePeriodSeconds`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    /// When the request was made: the grace period counts from here.
    pub since: Timestamp,
    /// How long the pod's containers may take to end.
    pub grace: Duration,
    /// Why, in words: shown in the pod's status and in its events.
    pub reason: String,
}

/// Something wrong with what a source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceProblem {
    /// The origin that it is about; `None` for the source as a whole.
    pub origin: Option<Origin>,
    /// The problem with its place: file, line, field.
    pub message: String,
}

/// Sources and origins that exist and could not be read completely.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unread {
    sources: BTreeSet<String>,
    origins: BTreeSet<Origin>,
}

impl SourcedPod {
    /// A pod that should run.
    pub fn new(pod: Arc<Pod>, origin: impl Into<Origin>) -> Self {
        Self { pod, origin: origin.into(), deletion: None, over: None, api: None }
    }
}

impl PartialEq for SourcedPod {
    fn eq(&self, other: &Self) -> bool {
        self.origin == other.origin
            && self.deletion == other.deletion
            && self.over == other.over
            && self.api == other.api
            && (Arc::ptr_eq(&self.pod, &other.pod) || self.pod == other.pod)
    }
}

impl fmt::Display for SourceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Desired {
    /// Everything could be read: a pod that is not among the pods is gone.
    pub fn is_complete(&self) -> bool {
        self.unread.is_empty()
    }
}

impl Unread {
    /// The source of this name could not be read at all.
    pub fn of_source(name: &str) -> Self {
        Self { sources: [name.to_owned()].into(), origins: BTreeSet::new() }
    }

    /// This origin could not be read completely.
    pub fn of_origin(origin: impl Into<Origin>) -> Self {
        Self { sources: BTreeSet::new(), origins: [origin.into()].into() }
    }

    /// Adds what another value has.
    pub fn extend(&mut self, other: Self) {
        self.sources.extend(other.sources);
        self.origins.extend(other.origins);
    }

    /// Everything could be read.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.origins.is_empty()
    }

    /// Whether a pod that is known from this origin, and is no longer among the pods, may still be there.
    pub fn may_have(&self, origin: &Origin) -> bool {
        self.sources.contains(origin.source()) || self.origins.contains(origin)
    }
}
