//! Whether a guest passed, from what it left: the console, the result lines, how QEMU ended and whether it
//! was waited for in vain.

use std::fmt;
use std::time::Duration;

use super::oops;
use super::received::{Lasted, Received};

/// How a kernel's last words begin.
pub const PANIC: &str = "Kernel panic";

/// What there is to judge.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The text of the first serial port.
    pub console: &'a str,
    /// The lines of the second.
    pub received: &'a Received,
    /// How QEMU ended.
    pub exit: &'a Exit,
    /// The limit that was over when QEMU was killed.
    pub timed_out: Option<Limit>,
}

/// How QEMU ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// By itself with status 0: the guest powered off, or its kernel panicked.
    Clean,
    /// We killed it.
    Killed,
    /// By itself with an error, which is this.
    Failed(String),
}

/// A limit in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// From the start to the beginning of the job.
    Boot(Duration),
    /// From the start to the end.
    Whole(Duration),
    /// Between two lines of the job.
    Silence(Duration),
}

/// The judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All is well.
    Passed,
    /// It is not.
    Failed(Reason),
}

/// Why a guest failed; of several the one that explains most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The kernel panicked: its words, and the fault that it panicked for.
    Panic(String),
    /// The kernel killed what it was doing: its words.
    Oops(String),
    /// The kernel found itself inconsistent, or stuck: its words.
    Bug(String),
    /// It took too long.
    TimeOut(Limit),
    /// QEMU failed.
    Qemu(String),
    /// The guest could not do its job.
    Error(String),
    /// It ended without saying that it was done.
    NoEnd,
    /// Tests failed, and the guest's clock was wrong, so that they say nothing.
    Clock(Lasted),
    /// So many tests failed.
    Tests(usize),
    /// No test failed by its line, but the tests' exit status says so.
    Status(i32),
    /// The tests ended well without counting themselves.
    NoCount,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(line) => write!(f, "kernel panic: {line}"),
            Self::Oops(line) => write!(f, "kernel oops: {line}"),
            Self::Bug(line) => write!(f, "fault of the kernel: {line}"),
            Self::TimeOut(Limit::Boot(limit)) => {
                write!(f, "time-out: the job had not begun after {} s", limit.as_secs())
            }
            Self::TimeOut(Limit::Silence(limit)) => {
                write!(f, "time-out after {} s without a line: the machine hangs", limit.as_secs())
            }
            Self::TimeOut(Limit::Whole(limit)) => write!(f, "time-out after {} s", limit.as_secs()),
            Self::Qemu(text) => write!(f, "QEMU failed: {text}"),
            Self::Error(text) => write!(f, "the guest could not do its job: {text}"),
            Self::NoEnd => f.write_str("it ended without saying that it was done"),
            Self::Clock(Lasted { guest, here }) => write!(
                f,
                "tests failed while the guest's clock went wrong: {:.1} s passed there, and {:.1} s here",
                guest.as_secs_f64(),
                here.as_secs_f64()
            ),
            Self::Tests(1) => f.write_str("1 test failed"),
            Self::Tests(count) => write!(f, "{count} tests failed"),
            Self::Status(status) => write!(f, "the tests ended with status {status}, though none failed"),
            Self::NoCount => f.write_str("the tests ended without counting themselves"),
        }
    }
}

/// Judges one guest. `counts` says whether tests ran, which close with their count.
pub fn judge(evidence: &Evidence, counts: bool) -> Verdict {
    let Evidence { console, received, exit, timed_out } = evidence;
    let said = |words: &[&str]| {
        kernel_line(console, words)
            .or_else(|| received.kernel.iter().find_map(|record| kernel_line(record, words)))
    };
    let reason = if let Some(line) = said(&[PANIC]) {
        Reason::Panic(match oops::summary(console) {
            Some(fault) => format!("{line}: {fault}"),
            None => line,
        })
    } else if let Some(line) = said(&["Oops", "general protection fault"]) {
        Reason::Oops(line)
    } else if let Some(line) = said(&["BUG: "]) {
        Reason::Bug(line)
    } else if let Some(limit) = timed_out {
        Reason::TimeOut(*limit)
    } else if let Exit::Failed(text) = exit {
        Reason::Qemu(text.clone())
    } else if let Some(error) = &received.error {
        Reason::Error(error.clone())
    } else {
        match received.end {
            None => Reason::NoEnd,
            Some(_) if received.counted().counts.failed > 0 => {
                match received.lasted.filter(Lasted::is_wrong) {
                    Some(lasted) => Reason::Clock(lasted),
                    None => Reason::Tests(received.counted().counts.failed),
                }
            }
            Some(status) if status != 0 => Reason::Status(status),
            Some(_) if counts && received.tally.endings == 0 => Reason::NoCount,
            Some(_) => return Verdict::Passed,
        }
    };
    Verdict::Failed(reason)
}

/// What should be reported though it fails nothing: the kernel's warnings, each once.
pub fn warnings(console: &str, received: &Received) -> Vec<String> {
    let from_console = console.lines().filter_map(|line| kernel_line(line, &["WARNING: "]));
    let mut warnings: Vec<String> = Vec::new();
    for warning in received.kernel.iter().cloned().chain(from_console) {
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
    warnings
}

/// The first line with one of `words`, from there on. (A word inside another, as in `DEBUG: `, is none.)
fn kernel_line(text: &str, words: &[&str]) -> Option<String> {
    text.lines().find_map(|line| {
        let starts = words.iter().filter_map(|word| line.find(word));
        let start =
            starts.filter(|at| !line[..*at].ends_with(|before: char| before.is_alphanumeric())).min()?;
        Some(line[start..].trim_end().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: &str = "nodewarden-guest: started 6.1";
    const END: &str = "nodewarden-guest: end 0";

    fn judged(console: &str, lines: &[&str], exit: &Exit, timed_out: Option<Limit>) -> String {
        let received = Received::of(lines);
        match judge(&Evidence { console, received: &received, exit, timed_out }, false) {
            Verdict::Passed => "passed".into(),
            Verdict::Failed(reason) => reason.to_string(),
        }
    }

    #[test]
    fn each_kind_of_failure() {
        let limit = Some(Limit::Whole(Duration::from_secs(9)));
        let boot = Some(Limit::Boot(Duration::from_secs(9)));
        let failed =
            &["test a ... FAILED (1 s)", "e2e: 3 passed, 1 failed, 0 skipped", "nodewarden-guest: end 1"];
        for (console, lines, exit, timed_out, expected) in [
            ("", &[STARTED, END][..], Exit::Clean, None, "passed"),
            ("[ 1.0] DEBUG: fine", &[STARTED, END], Exit::Clean, None, "passed"),
            (
                "[    2.1] sysrq: Trigger a crash\n[    2.1] Kernel panic - not syncing: sysrq triggered crash\n",
                &[STARTED],
                Exit::Clean,
                None,
                "kernel panic: Kernel panic - not syncing: sysrq triggered crash",
            ),
            (
                "[ 2.1] Oops: int3: 0000 [#1] SMP\n[ 2.1] Kernel panic - not syncing: Fatal exception",
                &[STARTED],
                Exit::Clean,
                None,
                "kernel panic: Kernel panic - not syncing: Fatal exception: Oops: int3: 0000 [#1] SMP",
            ),
            // A panic explains the time-out, the missing end and all else.
            ("Kernel panic - x", &[], Exit::Killed, limit, "kernel panic: Kernel panic - x"),
            ("Oops: 0000 [#1]\r\n", &[STARTED, END], Exit::Clean, None, "kernel oops: Oops: 0000 [#1]"),
            (
                "a\n[1] BUG: soft lockup",
                &[STARTED, END],
                Exit::Clean,
                None,
                "fault of the kernel: BUG: soft lockup",
            ),
            (
                "",
                &[STARTED, "nodewarden-guest: kernel BUG: sleeping", END],
                Exit::Clean,
                None,
                "fault of the kernel: BUG: sleeping",
            ),
            ("", &[STARTED], Exit::Killed, limit, "time-out after 9 s"),
            ("", &[], Exit::Killed, boot, "time-out: the job had not begun after 9 s"),
            ("", &[], Exit::Failed("no such file".into()), None, "QEMU failed: no such file"),
            (
                "",
                &[STARTED, "nodewarden-guest: error no disk"],
                Exit::Clean,
                None,
                "the guest could not do its job: no disk",
            ),
            ("", &[STARTED], Exit::Clean, None, "it ended without saying that it was done"),
            ("", failed, Exit::Clean, None, "1 test failed"),
            (
                "",
                &[STARTED, failed[0], "nodewarden-guest: lasted 90000", "nodewarden-guest: end 1"],
                Exit::Clean,
                None,
                "tests failed while the guest's clock went wrong: 90.0 s passed there, and 0.0 s here",
            ),
            (
                "",
                &["nodewarden-guest: end 3"],
                Exit::Clean,
                None,
                "the tests ended with status 3, though none failed",
            ),
        ] {
            assert_eq!(judged(console, lines, &exit, timed_out), expected, "{console} {lines:?}");
        }
    }

    #[test]
    fn tests_must_count_themselves() {
        let received = Received::of(&[STARTED, "test a ... ok", END]);
        let evidence = Evidence { console: "", received: &received, exit: &Exit::Clean, timed_out: None };
        assert_eq!(judge(&evidence, true), Verdict::Failed(Reason::NoCount));
        assert_eq!(judge(&evidence, false), Verdict::Passed);
    }

    #[test]
    fn a_warning_is_reported_once() {
        let received = Received::of(&["nodewarden-guest: kernel WARNING: CPU: 0 at x"]);
        let console = "[    1.2] WARNING: CPU: 0 at x\n[ 2.0] WARNING: y\n";
        assert_eq!(warnings(console, &received), ["WARNING: CPU: 0 at x", "WARNING: y"]);
    }
}
