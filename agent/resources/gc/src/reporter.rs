//! Reports of garbage collection: events of the node, and failures that repeat.

use std::collections::BTreeSet;

use jiff::Timestamp;
use nodewarden_model::Detail;
use nodewarden_storage::journal::Journal;
use parking_lot::Mutex;
use tracing::{info, warn};

use super::metrics::Part;

/// Writes events and remembers what failed.
#[derive(Debug)]
pub struct Reporter {
    journal: Journal,
    /// Kinds of work that failed in their last run.
    failing: Mutex<BTreeSet<Part>>,
}

impl Reporter {
    /// Writes events to `journal`.
    pub fn new(journal: Journal) -> Self {
        Self { journal, failing: Mutex::default() }
    }

    /// Writes an event of the node to the journal.
    pub fn event(&self, reason: &str, message: String) {
        info!("{reason}: {message}");
        let detail = Detail::Agent { reason: reason.to_owned(), message };
        self.journal.append(Timestamp::now(), "", None, detail);
    }

    /// Reports the result of a run: the first failure in a row is only logged, since it may be temporary;
    /// every further one is also an event (kubelet `StartGarbageCollection`).
    pub fn report(&self, what: Part, problem: Option<String>) {
        let mut failing = self.failing.lock();
        match problem {
            None => {
                if failing.remove(&what) {
                    info!(what = what.name(), "collection succeeds again");
                }
            }
            Some(problem) if failing.insert(what) => {
                warn!(what = what.name(), "collection failed once: {problem}");
            }
            Some(problem) => {
                drop(failing);
                let reason = if what == Part::Image { "ImageGCFailed" } else { "ContainerGCFailed" };
                self.event(reason, format!("{what}: failed again: {problem}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_storage::journal::Limits;

    use super::*;

    #[test]
    fn only_repeated_failures_are_events() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path(), Limits::default()).unwrap();
        let reporter = Reporter::new(journal.clone());
        let count = || journal.stats().events;
        reporter.report(Part::Image, Some("no".into()));
        reporter.report(Part::Container, Some("no".into()));
        assert_eq!(count(), 0);
        reporter.report(Part::Image, Some("no".into()));
        assert_eq!(count(), 1);
        reporter.report(Part::Image, None);
        reporter.report(Part::Image, Some("no".into()));
        assert_eq!(count(), 1);
        reporter.report(Part::Container, Some("no".into()));
        assert_eq!(count(), 2);
    }
}
