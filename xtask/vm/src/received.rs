//! What a guest has written to its second serial port.

use std::time::Duration;

use serde::Deserialize;

use nodewarden_guest_job::Mark;
use xtask_common::tally::Tally;

/// What one feature of the agent does on a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Feature {
    /// Its name.
    pub feature: String,
    /// How it does.
    pub state: State,
    /// Why it does not simply work.
    #[serde(default)]
    pub reason: String,
}

/// How a feature does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum State {
    /// As it should.
    #[serde(rename = "works")]
    Works,
    /// In another way, or with less.
    #[serde(rename = "falls back")]
    FallsBack,
    /// Not at all.
    #[serde(rename = "off")]
    Off,
}

/// How long a job took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lasted {
    /// By the guest's clock.
    pub guest: Duration,
    /// By this machine's.
    pub here: Duration,
}

impl Lasted {
    /// Whether the two clocks differ by more than the way of the lines explains.
    pub fn is_wrong(&self) -> bool {
        let (less, more) = (self.guest.min(self.here), self.guest.max(self.here));
        more > less * 5 / 4 + Duration::from_secs(2)
    }
}

/// Collected line by line.
#[derive(Debug, Default)]
pub struct Received {
    /// The kernel's release, once the job began.
    pub release: Option<String>,
    /// The tests so far.
    pub tally: Tally,
    /// Tests that passed, by their own lines.
    pub passed: usize,
    /// What each feature does.
    pub features: Vec<Feature>,
    /// Records of the kernel's log that should not be there.
    pub kernel: Vec<String>,
    /// Why the job could not be done.
    pub error: Option<String>,
    /// When the job began, since the machine's start.
    begun: Duration,
    /// How long the job took, once it is done.
    pub lasted: Option<Lasted>,
    /// The tests' exit status, once all is done.
    pub end: Option<i32>,
    /// What the tests printed.
    pub output: Vec<String>,
}

impl Received {
    /// Takes in one line. Returns what to show of it to the user; `since` is the time since the machine's
    /// start.
    pub fn line(&mut self, line: &str, since: Duration) -> Option<String> {
        let Ok(mark) = line.parse() else {
            self.tally.line(line);
            if line.starts_with("test ") && line.contains(" ... ok") {
                self.passed += 1;
            }
            self.output.push(line.to_owned());
            return Some(line.to_owned());
        };
        match mark {
            Mark::Started(release) => {
                let shown = format!("booted {release} in {:.1} s", since.as_secs_f64());
                self.release = Some(release);
                self.begun = since;
                Some(shown)
            }
            Mark::Feature(json) => match serde_json::from_str::<Feature>(&json) {
                Ok(feature) => {
                    self.features.push(feature);
                    None
                }
                Err(error) => {
                    let text = format!("the feature {json} can't be understood: {error}");
                    self.error.get_or_insert(text.clone());
                    Some(text)
                }
            },
            // Only tests that start guests themselves look at these.
            Mark::Node(_) => None,
            Mark::Kernel(text) => {
                let shown = format!("kernel: {text}");
                self.kernel.push(text);
                Some(shown)
            }
            Mark::Error(text) => {
                let shown = format!("error: {text}");
                self.error.get_or_insert(text);
                Some(shown)
            }
            Mark::Lasted(millis) => {
                let here = since.saturating_sub(self.begun);
                self.lasted = Some(Lasted { guest: Duration::from_millis(millis), here });
                None
            }
            Mark::End(status) => {
                self.end = Some(status);
                None
            }
        }
    }

    /// The tally, also of tests that never came to their closing line.
    pub fn counted(&self) -> Tally {
        let mut tally = self.tally.clone();
        if tally.endings == 0 {
            tally.counts.passed = self.passed;
            tally.counts.failed = tally.failed.len();
            tally.counts.skipped = tally.skipped.len();
        }
        tally
    }
}

#[cfg(test)]
impl Received {
    /// All of `lines`.
    pub fn of(lines: &[&str]) -> Self {
        let mut received = Self::default();
        for line in lines {
            received.line(line, Duration::ZERO);
        }
        received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_distinguished_from_tests() {
        let received = Received::of(&[
            "nodewarden-guest: started 6.1.0",
            "test a ... ok (1.0 s)",
            "test b ... FAILED (1.0 s)",
            "    b failed because",
            "test c ... skipped: no reason",
            "e2e: 1 passed, 1 failed, 1 skipped",
            r#"nodewarden-guest: feature {"feature":"oom","state":"falls back","reason":"old"}"#,
            r#"nodewarden-guest: feature {"feature":"cpu","state":"works"}"#,
            "nodewarden-guest: kernel WARNING: at x",
            "nodewarden-guest: end 1",
        ]);
        assert_eq!(received.release.as_deref(), Some("6.1.0"));
        assert_eq!(received.tally.failed, ["b: b failed because"]);
        assert_eq!((received.tally.counts.passed, received.end), (1, Some(1)));
        let states = received.features.iter().map(|feature| feature.state).collect::<Vec<_>>();
        assert_eq!(states, [State::FallsBack, State::Works]);
        assert_eq!(received.kernel, ["WARNING: at x"]);
        assert!(received.output.iter().any(|line| line.contains("b failed because")));
        assert!(received.error.is_none());
    }

    #[test]
    fn clocks_are_compared() {
        for (guest, seconds, wrong) in
            [(90_000, 10, true), (1_000, 10, true), (11_000, 10, false), (9_000, 10, false)]
        {
            let mut received = Received::default();
            received.line("nodewarden-guest: started 6.1.0", Duration::from_secs(3));
            received.line(&format!("nodewarden-guest: lasted {guest}"), Duration::from_secs(3 + seconds));
            assert_eq!(received.lasted.map(|lasted| lasted.is_wrong()), Some(wrong), "{guest} {seconds}");
        }
    }

    #[test]
    fn tests_without_an_end_are_counted_by_their_lines() {
        let received =
            Received::of(&["test a ... ok (1.0 s)", "test b ... FAILED (1 s)", "test c ... skipped: x"]);
        let counts = received.counted().counts;
        assert_eq!((counts.passed, counts.failed, counts.skipped), (1, 1, 1));
    }

    #[test]
    fn a_feature_of_unknown_state_is_an_error() {
        let received = Received::of(&[r#"nodewarden-guest: feature {"feature":"oom","state":"perhaps"}"#]);
        assert!(received.error.is_some_and(|error| error.contains("perhaps")));
    }
}
