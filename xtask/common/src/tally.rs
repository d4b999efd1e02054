//! Counting tests from what their runners print.
//!
//! Counts come from the closing lines (a test's own output can garble the others); names and reasons from the
//! line of each test.

/// How many tests passed, failed and were skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Skipped.
    pub skipped: usize,
}

/// The counts, and what is worth repeating at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// The counts so far.
    pub counts: Counts,
    /// What failed, with the first line of why if the runner shows it.
    pub failed: Vec<String>,
    /// What passed only at its second attempt, and why the first one failed.
    pub second_attempts: Vec<String>,
    /// What was skipped, with the reason.
    pub skipped: Vec<(String, String)>,
    /// How many closing lines there were: a runner without one did not come to its end.
    pub endings: usize,
    /// Whether the line before was that of a failed test: the reason may follow.
    reason_follows: bool,
}

/// What one line of a runner says.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    Failed(&'a str),
    Skipped(&'a str, &'a str),
    SecondAttempt(&'a str),
    End(Counts),
    Other,
}

impl Tally {
    /// Takes in one line of libtest or of nodewarden-e2e.
    pub fn line(&mut self, line: &str) {
        let follows = std::mem::take(&mut self.reason_follows);
        let reason = line.strip_prefix("    ").filter(|_| follows);
        if let (Some(reason), Some(failed)) = (reason, self.failed.last_mut()) {
            *failed = format!("{failed}: {}", reason.trim());
            return;
        }
        match parse(line) {
            Line::Failed(name) => {
                self.failed.push(name.to_owned());
                self.reason_follows = true;
            }
            Line::SecondAttempt(text) => self.second_attempts.push(text.to_owned()),
            Line::Skipped(name, reason) => self.skipped.push((name.to_owned(), reason.to_owned())),
            Line::End(counts) => {
                self.endings += 1;
                self.counts = self.counts.plus(counts);
            }
            Line::Other => {}
        }
    }

    /// One passed.
    pub fn pass(&mut self) {
        self.counts.passed += 1;
    }

    /// One failed.
    pub fn fail(&mut self, name: impl Into<String>) {
        self.counts.failed += 1;
        self.failed.push(name.into());
    }

    /// One skipped.
    pub fn skip(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        self.counts.skipped += 1;
        self.skipped.push((name.into(), reason.into()));
    }

    /// Adds another tally.
    pub fn add(&mut self, other: Self) {
        self.counts = self.counts.plus(other.counts);
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
        self.second_attempts.extend(other.second_attempts);
        self.endings += other.endings;
    }

    /// Whether anything ran and nothing failed.
    pub fn is_good(&self) -> bool {
        self.counts.failed == 0 && self.counts.passed > 0
    }

    /// What failed, what was skipped and why, and the counts alone on the last line.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for (name, reason) in &self.skipped {
            text.push_str(&format!("skipped: {name}: {reason}\n"));
        }
        for first in &self.second_attempts {
            text.push_str(&format!("passed at its second attempt: {first}\n"));
        }
        for name in &self.failed {
            text.push_str(&format!("FAILED: {name}\n"));
        }
        let Counts { passed, failed, skipped } = self.counts;
        if passed + failed == 0 {
            text.push_str("no test ran, which counts as a failure\n");
        }
        text.push_str(&format!("{passed} passed, {failed} failed, {skipped} skipped\n"));
        text
    }
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

fn parse(line: &str) -> Line<'_> {
    if let Some(counts) = closing(line) {
        return Line::End(counts);
    }
    if let Some(text) = line.strip_prefix("second attempt: ") {
        return Line::SecondAttempt(text);
    }
    let Some((name, outcome)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) else {
        return Line::Other;
    };
    if outcome.starts_with("FAILED") {
        return Line::Failed(name);
    }
    let Some(reason) = outcome.strip_prefix("ignored").or_else(|| outcome.strip_prefix("skipped")) else {
        return Line::Other;
    };
    let reason = reason.trim_start_matches([',', ':', ' ']);
    Line::Skipped(name, if reason.is_empty() { "ignored without a reason" } else { reason })
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; ...` or `e2e: 3 passed, 0 failed, 1 skipped`.
fn closing(line: &str) -> Option<Counts> {
    let rest = match line.strip_prefix("test result: ") {
        Some(rest) => rest.split_once(". ")?.1,
        None => line.strip_prefix("e2e: ")?,
    };
    let count = |word: &str| {
        let mut parts = rest.split([',', ';']).map(str::trim);
        parts.find_map(|part| part.strip_suffix(word)?.trim().parse().ok())
    };
    let skipped = count("ignored").or_else(|| count("skipped"))?;
    Some(Counts { passed: count("passed")?, failed: count("failed")?, skipped })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: usize, failed: usize, skipped: usize) -> Counts {
        Counts { passed, failed, skipped }
    }

    #[test]
    fn lines() {
        let libtest = "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 9 filtered out; \
            finished in 0.02s";
        for (line, expected) in [
            ("test a::b ... ok", Line::Other),
            ("test a::b - should panic ... ok", Line::Other),
            ("test a::b ... FAILED", Line::Failed("a::b")),
            ("test a::b ... ignored", Line::Skipped("a::b", "ignored without a reason")),
            ("test a::b ... ignored, needs a GPU", Line::Skipped("a::b", "needs a GPU")),
            ("test oom storm ... skipped: no memory controller", {
                Line::Skipped("oom storm", "no memory controller")
            }),
            (libtest, Line::End(counts(3, 1, 2))),
            ("e2e: 12 passed, 0 failed, 3 skipped", Line::End(counts(12, 0, 3))),
            ("e2e: starting the agent, please wait", Line::Other),
            ("test result: gone", Line::Other),
            ("test b ... failed at its first attempt (3.0 s)", Line::Other),
            ("second attempt: b: too slow", Line::SecondAttempt("b: too slow")),
            ("running 4 tests", Line::Other),
            ("", Line::Other),
        ] {
            assert_eq!(parse(line), expected, "{line}");
        }
    }

    #[test]
    fn tallies_add_up() {
        let mut tally = Tally::default();
        for line in [
            "test a ... FAILED",
            "test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0s",
            "test b ... skipped: no root",
            "e2e: 2 passed, 0 failed, 1 skipped",
        ] {
            tally.line(line);
        }
        let mut all = Tally::default();
        all.pass();
        all.add(tally);
        assert_eq!((all.counts, all.endings), (counts(6, 1, 1), 2));
        assert_eq!(all.summary(), "skipped: b: no root\nFAILED: a\n6 passed, 1 failed, 1 skipped\n");
        assert!(!all.is_good());
    }

    #[test]
    fn why_a_test_failed_is_on_the_line_below_it() {
        let mut tally = Tally::default();
        for line in [
            "test a ... FAILED (1.0 s)",
            "    no answer within 5 s",
            "    --- agent.log ---",
            "test b ... FAILED (1.0 s)",
            "test c ... ok (1.0 s)",
            "    12 requests",
            "test d ... failed at its first attempt (2.0 s)",
            "    too slow",
            "test d ... ok (1.0 s)",
            "second attempt: d: too slow",
            "e2e: 2 passed, 2 failed, 0 skipped",
        ] {
            tally.line(line);
        }
        let expected = "passed at its second attempt: d: too slow\nFAILED: a: no answer within 5 s\n\
            FAILED: b\n2 passed, 2 failed, 0 skipped\n";
        assert_eq!(tally.summary(), expected);
    }

    #[test]
    fn nothing_run_is_not_good() {
        let mut tally = Tally::default();
        tally.skip("all", "no kernel");
        assert!(!tally.is_good());
        assert!(tally.summary().ends_with("0 passed, 0 failed, 1 skipped\n"));
        tally.pass();
        assert!(tally.is_good());
    }
}
