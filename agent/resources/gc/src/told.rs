//! What collection tells: events of the node, and counters.

use parking_lot::Mutex;
use std::collections::BTreeSet;

use jiff::Timestamp;
use tracing::{info, warn};

use nodewarden_metrics::Own;
use nodewarden_model::Detail;
use nodewarden_storage::journal::Journal;

/// Why an image went (label `reason` of `kubelet_image_garbage_collected_total`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Reason {
    Space,
    Age,
}

impl Reason {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// See the module.
#[derive(Debug)]
pub struct Teller {
    journal: Journal,
    /// What failed at its last run.
    failing: Mutex<BTreeSet<&'static str>>,
}

impl Teller {
    pub fn new(journal: Journal) -> Self {
        Self { journal, failing: Mutex::default() }
    }

    /// An event of the node.
    pub fn event(&self, reason: &str, message: String) {
        info!("{reason}: {message}");
        let detail = Detail::Agent { reason: reason.to_owned(), message };
        self.journal.append(Timestamp::now(), "", None, detail);
    }

    /// How a run went: the first failure in a row is only logged, since it may pass by itself; every further one is an
    /// event too (kubelet `StartGarbageCollection`).
    pub fn went(&self, what: &'static str, problem: Option<String>) {
        let mut failing = self.failing.lock();
        match problem {
            None => {
                if failing.remove(what) {
                    info!(what, "collection succeeds again");
                }
            }
            Some(problem) if failing.insert(what) => warn!(what, "collection failed once: {problem}"),
            Some(problem) => {
                drop(failing);
                let reason = if what == "image" { "ImageGCFailed" } else { "ContainerGCFailed" };
                self.event(reason, format!("{what}: failed again: {problem}"));
            }
        }
    }
}

/// An image is gone.
pub fn image_removed(reason: Reason) {
    ::metrics::counter!(Own::ImagesCollected.name(), "reason" => reason.name()).increment(1);
}

/// The file system has more room.
pub fn freed(bytes: u64) {
    ::metrics::counter!(Own::GcFreed.name()).increment(bytes);
}

/// Something could not be removed, or a run ended early.
pub fn failed(what: &'static str) {
    ::metrics::counter!(Own::GcFailures.name(), "what" => what).increment(1);
}

/// How the last run for space ended: what it was to free, and did.
pub fn space(wanted: u64, freed: u64) {
    ::metrics::gauge!(Own::GcLastWanted.name()).set(wanted as f64);
    ::metrics::gauge!(Own::GcLastFreed.name()).set(freed as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodewarden_storage::journal::Limits;

    #[test]
    fn only_repeated_failures_are_events() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path(), Limits::default()).unwrap();
        let teller = Teller::new(journal.clone());
        let count = || journal.stats().events;
        teller.went("image", Some("no".into()));
        teller.went("container", Some("no".into()));
        assert_eq!(count(), 0);
        teller.went("image", Some("no".into()));
        assert_eq!(count(), 1);
        teller.went("image", None);
        teller.went("image", Some("no".into()));
        assert_eq!(count(), 1);
        teller.went("container", Some("no".into()));
        assert_eq!(count(), 2);
    }
}
