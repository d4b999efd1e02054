//! What a test program of Rust's own harness (libtest) prints, line by line.
//!
//! It runs with `--show-output`: after the tests come a part `successes:` and a part `failures:` with what
//! each test printed. A test that could not do its work prints the line [`SKIPPED`] and returns, and counts
//! as skipped.

use xtask_common::tally::Tally;

/// How the line begins by which a test says that it was skipped; the reason follows.
pub const SKIPPED: &str = "nodewarden-test: skipped: ";

/// The part of the output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Part {
    /// Every test with its outcome, as they end.
    #[default]
    Outcomes,
    /// What the tests printed that passed.
    Successes,
    /// What the tests printed that failed.
    Failures,
}

/// Reads the output of one test program.
#[derive(Debug, Default)]
pub struct Libtest {
    /// In front of each test's name.
    prefix: String,
    part: Part,
    /// The test whose output is being read.
    test: String,
    tally: Tally,
    /// What failed tests printed.
    failures: String,
    /// Tests that skipped themselves, with the reason.
    skipped: Vec<(String, String)>,
}

impl Libtest {
    /// For a program whose tests are named with `prefix` in front.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..Self::default() }
    }

    /// Takes in one line. Returns what to show of it at once; what failed tests printed comes last, by
    /// [`Self::failures`], since programs that run at the same time would mix it.
    pub fn line(&mut self, line: &str) -> Option<String> {
        match line {
            "successes:" => self.part = Part::Successes,
            "failures:" => self.part = Part::Failures,
            _ if line.starts_with("test result: ") => {
                self.part = Part::Outcomes;
                self.tally.line(line);
                return None;
            }
            _ => {}
        }
        match self.part {
            Part::Outcomes => {
                let named = line.strip_prefix("test ").map(|rest| format!("test {}{rest}", self.prefix))?;
                self.tally.line(&named);
                Some(named)
            }
            Part::Successes => {
                self.success(line);
                None
            }
            Part::Failures => {
                self.failures.push_str(line);
                self.failures.push('\n');
                None
            }
        }
    }

    fn success(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            test.clone_into(&mut self.test);
        } else if let Some(reason) = line.strip_prefix(SKIPPED)
            && !self.test.is_empty()
        {
            // The first reason counts, so that a test is counted once.
            let test = format!("{}{}", self.prefix, std::mem::take(&mut self.test));
            self.skipped.push((test, reason.trim().to_owned()));
        }
    }

    /// What the failed tests printed, with libtest's own headings; empty when none failed.
    pub fn failures(&self) -> &str {
        &self.failures
    }

    /// Whether the program came to its end.
    pub fn is_complete(&self) -> bool {
        self.tally.endings > 0
    }

    /// The count, in which tests that skipped themselves have not passed.
    pub fn tally(self) -> Tally {
        let mut tally = self.tally;
        tally.counts.passed = tally.counts.passed.saturating_sub(self.skipped.len());
        self.skipped.into_iter().for_each(|(test, reason)| tally.skip(test, reason));
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str) -> (String, Tally) {
        let mut libtest = Libtest::new("gc::");
        let shown = lines.lines().filter_map(|line| libtest.line(line)).collect::<Vec<_>>().join("\n");
        assert!(libtest.is_complete());
        (format!("{shown}\n{}", libtest.failures()), libtest.tally())
    }

    #[test]
    fn a_test_that_skipped_itself_has_not_passed() {
        let (shown, tally) = read(
            "\n\
            running 4 tests\n\
            test a::b ... ok\n\
            test c ... ok\n\
            test d ... ignored, takes minutes\n\
            test e - should panic ... ok\n\
            \n\
            successes:\n\
            \n\
            ---- a::b stdout ----\n\
            reading /sys\n\
            nodewarden-test: skipped: not root\n\
            nodewarden-test: skipped: and no cgroups\n\
            \n\
            ---- c stdout ----\n\
            it would print \"nodewarden-test: skipped: x\"\n\
            \n\
            \n\
            successes:\n    a::b\n    c\n    e\n\
            \n\
            test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!(
            shown,
            "test gc::a::b ... ok\ntest gc::c ... ok\ntest gc::d ... ignored, takes minutes\n\
             test gc::e - should panic ... ok\n"
        );
        assert_eq!(
            tally.summary(),
            "skipped: gc::d: takes minutes\nskipped: gc::a::b: not root\n2 passed, 0 failed, 2 skipped\n"
        );
    }

    #[test]
    fn a_test_that_failed_is_not_skipped_whatever_it_printed() {
        let (shown, tally) = read(
            "\n\
            running 1 test\n\
            test a ... FAILED\n\
            \n\
            successes:\n\
            \n\
            successes:\n\
            \n\
            failures:\n\
            \n\
            ---- a stdout ----\n\
            nodewarden-test: skipped: not root\n\
            thread 'a' panicked at x.rs:1:1:\n\
            \n\
            failures:\n    a\n\
            \n\
            test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert!(
            shown.contains("---- a stdout ----\nnodewarden-test: skipped: not root\nthread 'a'"),
            "{shown}"
        );
        assert_eq!(tally.summary(), "FAILED: gc::a\n0 passed, 1 failed, 0 skipped\n");
    }

    #[test]
    fn a_program_that_died_is_not_complete() {
        let mut libtest = Libtest::new("");
        libtest.line("running 1 test");
        assert!(!libtest.is_complete());
    }
}
