//! What was done or would have been, for the journal, the log and the metrics.

use nodewarden_metrics::Own;

use crate::incident::reason;
use crate::ledger::{Entry, Undone};
use crate::wanted::{Feature, Wanted};

/// One thing that was done, would have been, or could not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The uid of the pod; empty for a daemon.
    pub pod: String,
    /// The container in it; empty for the pod as a whole.
    pub container: String,
    /// One of [`reason`].
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl Report {
    /// That a value was or would be written in place of another one, or failed.
    pub fn of(wanted: &Wanted, reason: &'static str, message: String) -> Self {
        count(wanted.feature, reason);
        Self { pod: wanted.pod.clone(), container: String::new(), reason, message }
    }
}

/// What putting back came to; `None` where nothing had to be done.
pub fn undone(entry: &Entry, undone: &Undone) -> Option<Report> {
    let (path, old) = (entry.place.path(), &entry.old);
    let path = path.display();
    let (reason, message) = match undone {
        Undone::Nothing => return None,
        Undone::Restored => {
            (reason::TAKEN_BACK, format!("{path} is {old} again, as before {}", entry.feature.name()))
        }
        Undone::LeftAlone { found } => (
            reason::LEFT_ALONE,
            format!(
                "{path} stays {found:?}, which another program has written: it was {old}, then {}",
                entry.value()
            ),
        ),
        Undone::Failed(why) => (reason::FAILED, format!("{path} could not be put back to {old}: {why}")),
    };
    count(entry.feature, reason);
    Some(Report { pod: entry.pod.clone(), container: String::new(), reason, message })
}

fn count(feature: Feature, reason: &'static str) {
    let result = match reason {
        reason::SET => "set",
        reason::WOULD_SET => "would_set",
        reason::TAKEN_BACK => "taken_back",
        reason::LEFT_ALONE => "left_alone",
        _ => "failed",
    };
    ::metrics::counter!(Own::AugmentWrites.name(), "feature" => feature.name(), "result" => result)
        .increment(1);
}
