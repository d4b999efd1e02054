//! The tests in the code: the test programs of all packages, several at a time.

mod libtest;
mod programs;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::thread;

use parking_lot::Mutex;
use xtask_common::layout::{GOLDEN_VARIABLE, Layout};
use xtask_common::process::{self, CommandError};
use xtask_common::tally::Tally;

use super::{TestError, checks};
use libtest::Libtest;
use programs::Program;

/// Part of the name of each test that reads recorded values.
const GOLDEN: &str = "golden::";

/// Which of the unit tests.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Only those that read recorded values.
    pub golden_only: bool,
    /// Only those with this in their name, which begins with the package's.
    pub filter: Option<&'a str>,
    /// Whether what they compile is linted and its documents are checked, which count as a test each.
    pub lint: bool,
}

/// The tests of one program that are to run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Chosen {
    program: Program,
    /// By the names that the program knows.
    tests: Vec<String>,
    /// Whether these are all that it has.
    all: bool,
}

/// Builds them, calls `built`, and runs them, also after one has failed.
///
/// # Errors
/// When cargo or a test program can't be started, or a test does not compile.
pub fn run(layout: &Layout, scope: Scope, tally: &mut Tally, built: impl FnOnce()) -> Result<(), TestError> {
    let programs = build(layout, scope.lint, tally)?;
    built();
    let mut chosen = Vec::new();
    for program in programs {
        let tests = program.tests()?;
        chosen.push(choose(program, tests, scope, layout.golden().is_some(), tally));
    }
    chosen.retain(|chosen| !chosen.tests.is_empty());
    // The longest first, so that none runs on alone in the end.
    chosen.sort_by_key(|chosen| std::cmp::Reverse(chosen.tests.len()));
    tally.add(run_all(layout, chosen)?);
    Ok(())
}

/// Builds them. If that fails with clippy, they are built again without it: then they are tested all the same
/// if only a lint was not kept.
fn build(layout: &Layout, lint: bool, tally: &mut Tally) -> Result<Vec<Program>, TestError> {
    let mut linted = programs::build_command(layout);
    if lint {
        match checks::lint_and_document_what_is_compiled(layout, &mut linted) {
            Ok(()) => {
                let programs = programs::build(linted);
                checks::count_lints(programs.is_ok(), tally);
                if let Ok(programs) = programs {
                    let roots: Vec<_> = programs.iter().map(|program| program.root.clone()).collect();
                    checks::count_documents(layout, &roots, tally);
                    return Ok(programs);
                }
            }
            Err(reason) => checks::skip_lints(reason, tally),
        }
        checks::documents(layout, tally)?;
    }
    Ok(programs::build(programs::build_command(layout))?)
}

/// Chooses among `tests`. Those that would need recorded values which are not there are counted as skipped.
fn choose(program: Program, tests: Vec<String>, scope: Scope, golden: bool, tally: &mut Tally) -> Chosen {
    let count = tests.len();
    let mut chosen = Vec::new();
    for test in tests {
        let name = format!("{}{test}", program.prefix());
        let reads_golden = name.contains(GOLDEN);
        if (scope.golden_only && !reads_golden) || scope.filter.is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        if reads_golden && !golden {
            tally.skip(name, format!("no recorded values: set {GOLDEN_VARIABLE} to their folder"));
        } else {
            chosen.push(test);
        }
    }
    Chosen { program, all: chosen.len() == count, tests: chosen }
}

/// Runs test programs, as many at a time as there are CPUs: most of a test's time is often spent in waiting.
fn run_all(layout: &Layout, chosen: Vec<Chosen>) -> Result<Tally, CommandError> {
    let jobs = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(chosen.len());
    let waiting = Mutex::new(VecDeque::from(chosen));
    let take = || waiting.lock().pop_front();
    let done = Mutex::new(Ok(Tally::default()));
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(chosen) = take() {
                    let ended = run_one(layout, &chosen);
                    let mut done = done.lock();
                    match (&mut *done, ended) {
                        (Ok(tally), Ok(ended)) => tally.add(ended),
                        (Ok(_), Err(error)) => *done = Err(error),
                        (Err(_), _) => {}
                    }
                }
            });
        }
    });
    done.into_inner()
}

fn run_one(layout: &Layout, chosen: &Chosen) -> Result<Tally, CommandError> {
    let mut command = chosen.program.command();
    command.arg("--show-output").env("PATH", layout.path_with_tools());
    if !chosen.all {
        command.arg("--exact").args(&chosen.tests);
    }
    if let Some(folder) = layout.golden() {
        command.env(GOLDEN_VARIABLE, folder);
    }
    let mut libtest = Libtest::new(chosen.program.prefix());
    let status = process::each_output_line(&mut command, |line| {
        if let Some(line) = libtest.line(line) {
            println!("{line}");
        }
    })?;
    print!("{}", libtest.failures());
    let complete = libtest.is_complete();
    let mut tally = libtest.tally();
    if !complete || (!status.success() && tally.counts.failed == 0) {
        let name = &chosen.program.name;
        tally.fail(format!("the unit tests of {name}, which did not come to their end ({status})"));
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(golden_only: bool, filter: Option<&str>, golden: bool) -> (String, bool, usize) {
        let program =
            Program { name: "gc".into(), path: "/p".into(), folder: "/f".into(), root: "/f/x.rs".into() };
        let tests = ["rank::oldest", "golden::x", "order::golden::y"].map(str::to_owned).to_vec();
        let mut tally = Tally::default();
        let chosen = choose(program, tests, Scope { golden_only, filter, lint: false }, golden, &mut tally);
        (chosen.tests.join(" "), chosen.all, tally.counts.skipped)
    }

    #[test]
    fn tests_are_chosen_by_their_whole_name() {
        for (golden_only, filter, golden, expected) in [
            (false, None, true, ("rank::oldest golden::x order::golden::y", true, 0)),
            (false, Some("oldest"), true, ("rank::oldest", false, 0)),
            (false, Some("gc::golden"), true, ("golden::x", false, 0)),
            (false, Some("gc"), true, ("rank::oldest golden::x order::golden::y", true, 0)),
            (false, Some("oom"), true, ("", false, 0)),
            (true, None, true, ("golden::x order::golden::y", false, 0)),
            (true, Some("order"), true, ("order::golden::y", false, 0)),
            (false, None, false, ("rank::oldest", false, 2)),
            (true, None, false, ("", false, 2)),
        ] {
            let (tests, all, skipped) = chosen(golden_only, filter, golden);
            assert_eq!((tests.as_str(), all, skipped), expected, "{golden_only} {filter:?} {golden}");
        }
    }

    #[test]
    fn a_program_that_dies_is_a_failure() {
        let layout = Layout { root: "/".into(), target: "/".into() };
        let run = |path: &str| {
            let program =
                Program { name: "gc".into(), path: path.into(), folder: "/".into(), root: "/x.rs".into() };
            run_all(&layout, vec![Chosen { program, tests: vec!["x".into()], all: true }])
        };
        let tally = run("/bin/false").unwrap();
        assert_eq!(tally.counts.failed, 1);
        assert!(tally.failed[0].contains("the unit tests of gc"), "{:?}", tally.failed);
        assert!(run("/no/such/program").is_err());
    }
}
