//! What a source logs of its own pods.

use tracing::{info, warn};

use super::{Desired, SourceProblem};

/// Logs problems that are not among those of `before`, and how many pods of `source` there are if they
/// changed.
pub fn report(source: &str, before: Option<&Desired>, now: &Desired) {
    let known = |problem: &SourceProblem| before.is_some_and(|b| b.problems.contains(problem));
    for problem in now.problems.iter().filter(|p| !known(p)) {
        warn!("{source}: {problem}");
    }
    if before.is_none_or(|b| b.pods != now.pods) {
        info!(pods = now.pods.len(), "{source} read");
    }
}
