//! Several tests at a time, each by a runner of its own: this program, asked for that one test. Names of
//! cgroups, network links, directories and processes have the runner's process id in them, so each runner
//! finds and removes what its own test left and nothing else.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Test;
use super::attempts::{Attempts, FIRST};
use super::runner::Options;

/// How often the runners are looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// How many tests passed, failed and were skipped; as text the line that a runner closes with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e2e: {} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// A line that is not a runner's closing one.
#[derive(Debug, PartialEq, Eq)]
pub struct NoCounts;

impl FromStr for Counts {
    type Err = NoCounts;

    fn from_str(line: &str) -> Result<Self, NoCounts> {
        let mut parts = line.strip_prefix("e2e: ").ok_or(NoCounts)?.split(", ");
        let mut count = |word: &str| {
            let part = parts.next().and_then(|part| part.strip_suffix(word));
            part.and_then(|number| number.trim_end().parse().ok()).ok_or(NoCounts)
        };
        Ok(Self { passed: count("passed")?, failed: count("failed")?, skipped: count("skipped")? })
    }
}

/// A runner at work.
struct Running<'a> {
    test: &'a Test,
    child: Child,
    output: PathBuf,
}

/// Runs `tests`, `jobs` at a time and those that may take longest first, and prints what each runner printed
/// once it has ended. When `interrupted` is set, the runners are interrupted too and no further one is begun.
/// A test that fails and has a second attempt is in no count yet.
pub fn run<'a>(
    tests: &[&'a Test],
    jobs: usize,
    options: &Options,
    own: &Path,
    files: &Path,
    interrupted: &AtomicBool,
    attempts: &mut Attempts<'a>,
) -> Counts {
    let mut waiting = tests.to_vec();
    waiting.sort_by_key(|test| std::cmp::Reverse(test.timeout_seconds));
    let mut waiting = VecDeque::from(waiting);
    let mut running: Vec<Running> = Vec::new();
    let mut counts = Counts::default();
    let mut passed_on = false;
    loop {
        if interrupted.load(Ordering::SeqCst) && !passed_on {
            passed_on = true;
            waiting.clear();
            for one in &running {
                interrupt(one);
            }
        }
        while running.len() < jobs
            && let Some(test) = waiting.pop_front()
        {
            match start(test, options, own, files) {
                Ok(one) => running.push(one),
                Err(error) => counts.add(no_end(test, &format!("{}: {error}", own.display()))),
            }
        }
        if running.is_empty() {
            return counts;
        }
        // What cannot be waited for has ended as well.
        let (ended, going) = running.into_iter().partition(|one| !is_running(one.child.id()));
        running = going;
        ended.into_iter().for_each(|one| counts.add(finish(one, attempts)));
        std::thread::sleep(GLANCE);
    }
}

fn start<'a>(test: &'a Test, options: &Options, own: &Path, files: &Path) -> io::Result<Running<'a>> {
    let output = files.join(format!("{}.out", test.name));
    let file = File::create(&output)?;
    let mut command = Command::new(own);
    command.args(["--exact", test.name, "--agent"]).arg(&options.agent);
    command.args(["--patience", &options.patience.to_string()]);
    if options.json {
        command.arg("--json");
    }
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    Ok(Running { test, child: command.spawn()?, output })
}

/// Makes a runner end its test and remove what it left. One that has just ended is as wanted.
fn interrupt(one: &Running) {
    let _ = kill(Pid::from_raw(one.child.id() as i32), Signal::SIGTERM);
}

/// Whether a child has not ended; it stays to be waited for.
fn is_running(pid: u32) -> bool {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    matches!(waitid(Id::Pid(Pid::from_raw(pid as i32)), flags), Ok(WaitStatus::StillAlive))
}

/// Prints what the runner printed, without its closing line, which is returned.
fn finish<'a>(mut one: Running<'a>, attempts: &mut Attempts<'a>) -> Counts {
    let status = one.child.wait();
    let text = std::fs::read(&one.output).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().collect::<Vec<_>>();
    let Some(counts) = lines.last().and_then(|line| line.parse::<Counts>().ok()) else {
        lines.iter().for_each(|line| println!("{line}"));
        return no_end(one.test, &format!("its runner ended with {status:?}"));
    };
    lines.pop();
    let failed = format!("test {} ... FAILED", one.test.name);
    let failed = lines.iter().position(|line| line.starts_with(&failed));
    let why = failed.and_then(|at| lines.get(at + 1)).copied().unwrap_or_default();
    let first = failed.filter(|_| attempts.take(one.test, why));
    for (at, line) in lines.iter().enumerate() {
        match Some(at) == first {
            true => println!("{}", line.replacen("FAILED", FIRST, 1)),
            false => println!("{line}"),
        }
    }
    // What the test has left behind is a failure of its own.
    Counts { failed: counts.failed - usize::from(first.is_some()), ..counts }
}

fn no_end(test: &Test, why: &str) -> Counts {
    println!("test {} ... FAILED\n    {why}", test.name);
    Counts { failed: 1, ..Counts::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_back_as_written() {
        let counts = Counts { passed: 3, failed: 1, skipped: 20 };
        assert_eq!(counts.to_string().parse(), Ok(counts));
        for line in ["", "e2e: 3 passed", "e2e: 3 passed, x failed, 1 skipped", "test e2e: ... ok"] {
            assert_eq!(line.parse::<Counts>(), Err(NoCounts), "{line}");
        }
    }

    #[test]
    fn a_runner_that_dies_is_a_failed_test() {
        let test = Test::new("a_test", |_| Ok(()));
        let temp = std::env::temp_dir();
        let own = Path::new("/bin/false");
        let options = Options {
            agent: PathBuf::new(),
            filters: Vec::new(),
            exact: None,
            json: false,
            patience: 1,
            jobs: 2,
            second_attempts: 0,
            single: None,
        };
        let none = &mut Attempts::default();
        let counts = run(&[&test, &test], 2, &options, own, &temp, &AtomicBool::new(false), none);
        assert_eq!(counts, Counts { failed: 2, ..Counts::default() });
        let counts = run(&[&test], 2, &options, Path::new("/no/such"), &temp, &AtomicBool::new(true), none);
        assert_eq!(counts, Counts::default(), "none is begun after an interrupt");
    }
}
