//! Which cgroup driver to take, and the one of the last start.
//!
//! A runtime that is away while the agent starts does not say which driver it uses. The configured one may be
//! the other one: every pod would then be in a cgroup of former settings, and end. So what the runtime said
//! last counts until it answers again. `driver.json` in the state directory has it.

use std::path::Path;

use nodewarden_machine::cgroup::control::DriverKind;
use nodewarden_storage::state_file::{Format, StateFile, StateFileError};
use serde::{Deserialize, Serialize};

const NAME: &str = "driver.json";
const FORMAT: Format = Format::new("driver", 1);

/// The file.
#[derive(Debug)]
pub struct LastDriver {
    file: StateFile,
    last: Content,
}

/// What the runtime said at the last start at which it answered; none if it does not report its driver.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Content {
    runtime: Option<String>,
}

/// What the runtime says of its driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Driver(DriverKind),
    /// It does not report it, or there is no runtime.
    NotReported,
    /// It does not answer.
    Silent,
}

/// The driver to take, and where it comes from.
pub fn choose(
    answer: Answer,
    last: Option<DriverKind>,
    configured: DriverKind,
) -> (DriverKind, &'static str) {
    match (answer, last) {
        (Answer::Driver(kind), _) => (kind, "the runtime"),
        (Answer::Silent, Some(kind)) => (kind, "the runtime at an earlier start"),
        (Answer::NotReported, _) | (Answer::Silent, None) => (configured, "configuration"),
    }
}

impl LastDriver {
    /// Reads the file that an earlier agent left in `dir`. If it cannot be read, the error is returned and
    /// nothing is known.
    pub fn open(dir: &Path) -> (Self, Option<StateFileError>) {
        let (file, last, problem) = StateFile::open::<Content>(dir.join(NAME), FORMAT);
        (Self { file, last: last.unwrap_or_default() }, problem)
    }

    /// What the runtime said last.
    pub fn get(&self) -> Option<DriverKind> {
        self.last.runtime.as_deref()?.parse().ok()
    }

    /// Records what the runtime says; nothing changes if it is silent.
    ///
    /// # Errors
    /// The file cannot be written: the next start takes the configured driver if the runtime is silent then.
    pub fn note(&mut self, answer: Answer) -> Result<(), StateFileError> {
        self.last.runtime = match answer {
            Answer::Driver(kind) => Some(kind.to_string()),
            Answer::NotReported => None,
            Answer::Silent => return Ok(()),
        };
        self.file.save(&self.last).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use DriverKind::{Cgroupfs, Systemd};

    use super::*;

    #[test]
    fn a_silent_runtime_is_taken_at_its_last_word() {
        let (runtime, earlier, configuration) =
            ("the runtime", "the runtime at an earlier start", "configuration");
        for (answer, last, configured, expected) in [
            (Answer::Driver(Systemd), None, Cgroupfs, (Systemd, runtime)),
            (Answer::Driver(Systemd), Some(Cgroupfs), Cgroupfs, (Systemd, runtime)),
            (Answer::NotReported, Some(Systemd), Cgroupfs, (Cgroupfs, configuration)),
            (Answer::Silent, Some(Systemd), Cgroupfs, (Systemd, earlier)),
            (Answer::Silent, Some(Cgroupfs), Systemd, (Cgroupfs, earlier)),
            (Answer::Silent, None, Systemd, (Systemd, configuration)),
        ] {
            assert_eq!(choose(answer, last, configured), expected, "{answer:?} {last:?} {configured}");
        }
    }

    #[test]
    fn the_next_agent_knows_what_the_runtime_said() {
        let dir = tempfile::tempdir().unwrap();
        // What is said at each start, and what the next one knows.
        for (answer, expected) in [
            (Answer::Silent, None),
            (Answer::Driver(Systemd), Some(Systemd)),
            (Answer::Silent, Some(Systemd)),
            (Answer::Driver(Cgroupfs), Some(Cgroupfs)),
            (Answer::NotReported, None),
            (Answer::Driver(Systemd), Some(Systemd)),
        ] {
            let (mut last, problem) = LastDriver::open(dir.path());
            assert!(problem.is_none(), "{problem:?}");
            last.note(answer).unwrap();
            assert_eq!(LastDriver::open(dir.path()).0.get(), expected, "{answer:?}");
        }
        fs::write(dir.path().join(NAME), "{").unwrap();
        let (last, problem) = LastDriver::open(dir.path());
        assert!(problem.is_some() && last.get().is_none());
    }
}
