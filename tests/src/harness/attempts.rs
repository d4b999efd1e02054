//! Second attempts: a few tests that fail are run once more, alone and after all others.
//!
//! A bound on time that a test misses because of what ran beside it says nothing about the agent, and one of
//! thousands of tests misses one now and then. What fails alone too has failed. What passes then is counted
//! as passed, and named in the summary with what its first attempt showed, since it may be a defect that only
//! a busy machine shows.

use super::Test;

/// The line of a test that has failed at its first attempt and has a second one.
pub const FIRST: &str = "failed at its first attempt";

/// How many second attempts are left, and whose they are.
#[derive(Default)]
pub struct Attempts<'a> {
    left: usize,
    due: Vec<Due<'a>>,
}

/// A test that has failed once.
pub struct Due<'a> {
    /// Which test.
    pub test: &'a Test,
    /// The first line of why it failed.
    pub why: String,
}

impl<'a> Attempts<'a> {
    /// So many tests may have one.
    pub fn new(most: usize) -> Self {
        Self { left: most, due: Vec::new() }
    }

    /// Takes in a test that has failed. Returns false if it has no second attempt, so that its failure
    /// counts.
    pub fn take(&mut self, test: &'a Test, why: &str) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let why = why.lines().next().unwrap_or_default().trim().to_owned();
        self.due.push(Due { test, why });
        true
    }

    /// The tests that are run again, in the order in which they failed.
    pub fn due(self) -> Vec<Due<'a>> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failed_tests_have_second_attempts() {
        let tests = ["a", "b", "c"].map(|name| Test::new(name, |_| Ok(())));
        let mut attempts = Attempts::new(2);
        let taken = tests.each_ref().map(|test| attempts.take(test, "too slow\n  by 1 s"));
        assert_eq!(taken, [true, true, false]);
        let due = attempts.due();
        assert_eq!(due.iter().map(|due| due.test.name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(due[0].why, "too slow");
    }

    #[test]
    fn without_any_each_failure_counts() {
        let test = Test::new("a", |_| Ok(()));
        let mut attempts = Attempts::default();
        assert!(!attempts.take(&test, "why"));
        assert!(attempts.due().is_empty());
    }
}
