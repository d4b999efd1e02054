//! All sources of an agent together.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::warn;

use super::merge::merge;
use super::origin::LastTaken;
use super::{Desired, DesiredSender, PodOrigins, PodSource, SourceGuard, SourceProblem};

/// The sources in the order of their precedence, seen as one.
#[derive(Debug, Default)]
pub struct PodSources {
    sources: Vec<Box<dyn PodSource>>,
    merger: Merger,
}

/// Ends the following of all sources when dropped.
pub struct Following {
    _guards: Vec<SourceGuard>,
}

/// The last value of each source, and their combination.
#[derive(Debug, Default)]
struct Merger {
    /// By the source's index.
    latest: Vec<Desired>,
    running: LastTaken,
    /// Conflicts that are in the log already.
    logged: Vec<SourceProblem>,
}

impl PodSources {
    /// The first source wins conflicts between pods of which none runs.
    pub fn new(sources: Vec<Box<dyn PodSource>>) -> Self {
        let merger = Merger { latest: vec![Desired::default(); sources.len()], ..Merger::default() };
        Self { sources, merger }
    }

    /// As [`PodSource::set_running`].
    pub fn set_running(&mut self, running: PodOrigins) {
        for source in &mut self.sources {
            source.set_running(&running);
        }
        self.merger.running = LastTaken::Running(running);
    }

    /// As [`PodSource::snapshot`], of all sources.
    pub fn snapshot(&mut self) -> Desired {
        self.merger.latest = self.sources.iter_mut().map(|source| source.snapshot()).collect();
        self.merger.merged()
    }

    /// As [`PodSource::follow`], of all sources: each change of one of them is a change of the whole.
    ///
    /// # Errors
    /// A source cannot be followed; the others are not followed either.
    pub fn follow(self, changes: DesiredSender) -> io::Result<Following> {
        let shared = Arc::new(Mutex::new((self.merger, changes)));
        let follow = |(index, source): (usize, Box<dyn PodSource>)| {
            let shared = shared.clone();
            source.follow(Box::new(move |desired| {
                // Sent under the lock: the newest value is the one that is sent last.
                let (merger, changes) = &mut *shared.lock();
                merger.latest[index] = desired;
                changes(merger.merged());
            }))
        };
        let guards = self.sources.into_iter().enumerate().map(follow).collect::<io::Result<_>>()?;
        Ok(Following { _guards: guards })
    }
}

impl Merger {
    fn merged(&mut self) -> Desired {
        let merged = merge(&self.latest, &self.running);
        self.running = LastTaken::Pods(merged.pods.clone());
        // The sources log their own problems; what is left are conflicts between them.
        let own = self.latest.iter().map(|desired| desired.problems.len()).sum();
        let conflicts = merged.problems[own..].to_vec();
        for problem in conflicts.iter().filter(|problem| !self.logged.contains(problem)) {
            warn!("pod source: {problem}");
        }
        self.logged = conflicts;
        merged
    }
}
