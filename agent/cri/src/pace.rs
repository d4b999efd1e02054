//! Intervals between queries to the runtime. Pure.

use std::time::{Duration, Instant};

use nodewarden_model::backoff::Backoff;

/// Minimum time between the starts of two refreshes.
pub const LEAST: Duration = Duration::from_secs(1);
/// Time between two answers of the runtime, which show that it answers.
pub const REGULAR: Duration = Duration::from_secs(60);
/// Time between two lists of what it has, if no name is missing meanwhile, and between two questions for its
/// version: a runtime that is updated is shown with its new version by then.
pub const LIST: Duration = Duration::from_secs(300);

/// What the runtime is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Nothing: another part's question shows that it answers.
    Nothing,
    /// Its version.
    Version,
    /// That, and what it has.
    List,
}

/// What to ask for at the end of a minute in which no name was missing. `listed`: time since the last list
/// for names; `answered`: since the runtime's answer to another part.
pub fn regularly(listed: Option<Duration>, answered: Option<Duration>) -> Ask {
    if listed.is_none_or(|since| since >= LIST) {
        Ask::List
    } else if answered.is_none_or(|since| since >= REGULAR) {
        Ask::Version
    } else {
        Ask::Nothing
    }
}

/// Pause after the `n`th failure (or unsuccessful look-up) in a row, from 1: 1 s doubling to 60 s.
pub fn back_off(n: u32) -> Duration {
    Backoff::doubling(LEAST, REGULAR).nth(n.saturating_sub(1))
}

/// Unsuccessful look-ups of a name: a pod's cgroup exists before its sandbox, and some containers do not
/// belong to the runtime; neither may cause constant queries.
#[derive(Debug, Default)]
pub struct Misses {
    count: u32,
    next: Option<Instant>,
}

impl Misses {
    /// Records a look-up; returns whether the runtime should be queried again.
    pub fn ask(&mut self, now: Instant) -> bool {
        if self.next.is_some_and(|next| now < next) {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.next = Some(now + back_off(self.count));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_to_a_minute() {
        for (n, seconds) in [(0, 1), (1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (8, 60), (u32::MAX, 60)] {
            assert_eq!(back_off(n), Duration::from_secs(seconds), "{n}");
        }
    }

    #[test]
    fn a_runtime_that_answers_other_parts_is_asked_each_five_minutes() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (listed, answered, ask) in [
            (None, seconds(1), Ask::List),
            (seconds(300), seconds(1), Ask::List),
            (seconds(299), None, Ask::Version),
            (seconds(299), seconds(60), Ask::Version),
            (seconds(299), seconds(59), Ask::Nothing),
        ] {
            assert_eq!(regularly(listed, answered), ask, "{listed:?} {answered:?}");
        }
    }

    #[test]
    fn unsuccessful_queries_become_rarer() {
        let (start, mut misses) = (Instant::now(), Misses::default());
        let asked: Vec<u64> = (0..200).filter(|s| misses.ask(start + Duration::from_secs(*s))).collect();
        assert_eq!(asked, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    }
}
