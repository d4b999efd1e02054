//! Runs each test in a process of its own and reports the results.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, killpg, sigaction};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::attempts::{Attempts, FIRST};
use super::parallel::Counts;
use super::{Beside, Context, Failure, Sweep, Test, parallel};
use crate::fixture::{Containerd, Layout, die_with_parent};

/// How many tests with [`Beside::Few`] run at a time, at most.
const FEW: usize = 3;

/// How to run the tests.
pub struct Options {
    pub agent: PathBuf,
    /// Parts of test names. A test runs if any of them matches; all tests run if there are none.
    pub filters: Vec<String>,
    /// The whole name of the only test that runs.
    pub exact: Option<String>,
    /// Prints one JSON object per test instead of a line of text.
    pub json: bool,
    pub patience: u32,
    /// How many of the tests that may run beside others do so at a time.
    pub jobs: usize,
    /// How many tests that fail are run a second time, alone and after all others.
    pub second_attempts: usize,
    /// Set in the process that runs a single test: its name, the runner's pid, and the file for its outcome.
    pub single: Option<(String, u32, PathBuf)>,
}

/// How one test ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", content = "detail", rename_all = "lowercase")]
enum Outcome {
    Ok,
    Failed(String),
    Skipped(String),
}

impl Outcome {
    /// One test that ended so.
    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        match self {
            Self::Ok => counts.passed = 1,
            Self::Failed(_) => counts.failed = 1,
            Self::Skipped(_) => counts.skipped = 1,
        }
        counts
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_interrupt(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// Runs the tests that match, prints a line for each and the totals. Fails if a test failed or left something
/// behind.
pub fn run(tests: &[Test], options: &Options) -> ExitCode {
    let layout = match Layout::detect() {
        Ok(layout) => layout,
        Err(error) => return abort(&error.to_string()),
    };
    if let Some((name, runner, outcome)) = &options.single {
        return run_single(tests, options, name, *runner, outcome, layout);
    }
    let chosen: Vec<&Test> = tests.iter().filter(|test| is_chosen(test.name, options)).collect();
    if chosen.iter().any(|test| test.needs_agent) && !options.agent.is_file() {
        return abort(&format!("no agent at {}", options.agent.display()));
    }
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return abort(&format!("own path: {error}")),
    };
    catch_interrupts();
    let files = std::env::temp_dir().join(format!("nodewarden-e2e-{}", std::process::id()));
    if let Err(error) = std::fs::create_dir_all(&files) {
        return abort(&format!("{}: {error}", files.display()));
    }

    let sweep = Sweep::new(&layout, std::process::id());
    // Pods of several tests on one runtime would be taken for what another test left.
    let jobs = if Containerd::is_of_the_machine() { 1 } else { options.jobs };
    // The first ones run alone: they test what all others depend on.
    let of = |beside| {
        let own = |test: &&&Test| (if jobs > 1 { test.beside } else { Beside::None }) == beside;
        chosen.iter().filter(own).copied().collect::<Vec<&Test>>()
    };
    let [alone, few, together] = [Beside::None, Beside::Few, Beside::Some].map(of);
    let mut counts = Counts::default();
    let mut attempts = Attempts::new(options.second_attempts);
    let run_one = |test: &Test| match missing(test, &layout) {
        Some(reason) => (Outcome::Skipped(reason), String::new()),
        None => spawn_and_wait(test, options, &own, &files, &sweep),
    };
    for test in alone {
        if INTERRUPTED.load(Ordering::SeqCst) {
            break;
        }
        let begun = Instant::now();
        let (outcome, output) = run_one(test);
        if let Outcome::Failed(why) = &outcome
            && attempts.take(test, why)
        {
            report_first(test.name, why, &output, begun.elapsed());
            continue;
        }
        counts.add(outcome.counts());
        report(test.name, &outcome, &output, begun.elapsed(), options.json);
    }
    for (tests, jobs) in [(few, jobs.min(FEW)), (together, jobs)] {
        if !tests.is_empty() && !options.json {
            println!("from here on: {jobs} tests at a time");
        }
        counts.add(parallel::run(&tests, jobs, options, &own, &files, &INTERRUPTED, &mut attempts));
    }
    for due in attempts.due() {
        let begun = Instant::now();
        let (outcome, output) = run_one(due.test);
        counts.add(outcome.counts());
        report(due.test.name, &outcome, &output, begun.elapsed(), options.json);
        if outcome == Outcome::Ok {
            println!("second attempt: {}: {}", due.test.name, due.why);
        }
    }
    drop(std::fs::remove_dir_all(&files));

    let left = sweep.find();
    if !left.is_empty() {
        counts.failed += 1;
        let list = left.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        report("leftovers", &Outcome::Failed(list), "", Duration::ZERO, options.json);
    }
    println!("{counts}");
    if INTERRUPTED.load(Ordering::SeqCst) {
        return ExitCode::from(130);
    }
    if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn abort(message: &str) -> ExitCode {
    eprintln!("nodewarden-e2e: {message}");
    ExitCode::FAILURE
}

fn is_chosen(name: &str, options: &Options) -> bool {
    match &options.exact {
        Some(exact) => name == exact,
        None => {
            options.filters.is_empty() || options.filters.iter().any(|filter| name.contains(filter.as_str()))
        }
    }
}

fn missing(test: &Test, layout: &Layout) -> Option<String> {
    let temp = std::env::temp_dir();
    test.needs.iter().find_map(|capability| capability.probe(layout, &temp).err())
}

fn catch_interrupts() {
    let action = SigAction::new(SigHandler::Handler(on_interrupt), SaFlags::empty(), SigSet::empty());
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        // SAFETY: the handler only stores to an atomic, which is async-signal-safe. Failing to install it
        // would only cost the cleaning after Ctrl-C.
        let _ = unsafe { sigaction(signal, &action) };
    }
}

fn spawn_and_wait(
    test: &Test,
    options: &Options,
    own: &Path,
    files: &Path,
    sweep: &Sweep<'_>,
) -> (Outcome, String) {
    let log = files.join(format!("{}.log", test.name));
    let result = files.join(format!("{}.json", test.name));
    let mut child = match spawn(test, options, own, &log, &result) {
        Ok(child) => child,
        Err(error) => return (Outcome::Failed(format!("{}: {error}", own.display())), String::new()),
    };
    let limit = Duration::from_secs(test.timeout_seconds) * options.patience;
    let ended = wait(&mut child, limit);
    // The test's processes share its group; the group is empty when the test cleaned up after itself.
    let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
    let _ = child.wait();
    let left = sweep.clean();
    let output = std::fs::read_to_string(&log).unwrap_or_default();
    let outcome = match ended {
        Ended::Interrupted => Outcome::Failed("interrupted".into()),
        Ended::TimedOut => Outcome::Failed(format!("timed out after {} s", limit.as_secs())),
        Ended::Exited(status) => {
            match std::fs::read(&result).ok().and_then(|b| serde_json::from_slice(&b).ok()) {
                Some(outcome) => outcome,
                None => Outcome::Failed(format!("the test's process ended with {status}")),
            }
        }
    };
    let outcome = match outcome {
        Outcome::Ok if !left.is_empty() => Outcome::Failed(format!(
            "left behind: {}",
            left.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        )),
        other => other,
    };
    (outcome, output)
}

fn spawn(test: &Test, options: &Options, own: &Path, log: &Path, result: &Path) -> std::io::Result<Child> {
    let log = File::create(log)?;
    let mut command = Command::new(own);
    command
        .args(["--single", test.name, "--runner", &std::process::id().to_string()])
        .arg("--outcome")
        .arg(result)
        .arg("--agent")
        .arg(&options.agent)
        .args(["--patience", &options.patience.to_string()])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0);
    die_with_parent(&mut command);
    command.spawn()
}

enum Ended {
    Exited(std::process::ExitStatus),
    TimedOut,
    Interrupted,
}

fn wait(child: &mut Child, limit: Duration) -> Ended {
    let deadline = Instant::now() + limit;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Ended::Exited(status);
        }
        if INTERRUPTED.load(Ordering::SeqCst) {
            return Ended::Interrupted;
        }
        if Instant::now() >= deadline {
            return Ended::TimedOut;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Prefix of a line in a test's output that is shown even if the test passes, such as a measured figure.
pub const REPORTED: &str = "reported: ";

fn report(name: &str, outcome: &Outcome, output: &str, took: Duration, json: bool) {
    if json {
        let mut line = serde_json::json!({ "test": name, "seconds": took.as_secs_f64() });
        if let (Some(line), Ok(serde_json::Value::Object(fields))) =
            (line.as_object_mut(), serde_json::to_value(outcome))
        {
            line.extend(fields);
            if matches!(outcome, Outcome::Failed(_)) {
                line.insert("output".into(), output.into());
            } else if reported(output).next().is_some() {
                line.insert("reported".into(), reported(output).collect());
            }
        }
        println!("{line}");
        return;
    }
    match outcome {
        Outcome::Ok => {
            println!("test {name} ... ok ({:.1} s)", took.as_secs_f64());
            reported(output).for_each(|line| println!("    {line}"));
        }
        Outcome::Skipped(reason) => println!("test {name} ... skipped: {reason}"),
        Outcome::Failed(detail) => {
            println!("test {name} ... FAILED ({:.1} s)", took.as_secs_f64());
            for line in detail.lines().chain(output.lines()) {
                println!("    {line}");
            }
        }
    }
}

/// Prints a first attempt, which counts only if the second one fails too.
fn report_first(name: &str, why: &str, output: &str, took: Duration) {
    println!("test {name} ... {FIRST} ({:.1} s)", took.as_secs_f64());
    why.lines().chain(output.lines()).for_each(|line| println!("    {line}"));
}

/// The lines with the prefix [`REPORTED`], without it.
fn reported(output: &str) -> impl Iterator<Item = &str> {
    // A killed worker may have left an incomplete line before the prefix.
    output.lines().filter_map(|line| line.split_once(REPORTED).map(|(_, reported)| reported))
}

/// Runs one test in this process, prints the agents' logs if it fails, and writes the outcome to a file.
fn run_single(
    tests: &[Test],
    options: &Options,
    name: &str,
    runner: u32,
    outcome: &Path,
    layout: Layout,
) -> ExitCode {
    let Some(test) = tests.iter().find(|test| test.name == name) else {
        return abort(&format!("no test {name}"));
    };
    let context = std::env::current_exe()
        .and_then(|own| Context::new(options.agent.clone(), own, name, runner, options.patience, layout));
    let context = match context {
        Ok(context) => context,
        Err(error) => return abort(&error.to_string()),
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (test.run)(&context)));
    let problems = context.problems().take();
    let ended = match result {
        Ok(Ok(())) if problems.is_empty() => Outcome::Ok,
        Ok(Ok(())) => Outcome::Failed(problems.join("\n")),
        Ok(Err(Failure::Skip(reason))) => Outcome::Skipped(reason),
        Ok(Err(failure)) => Outcome::Failed(explain(&failure, &problems)),
        Err(_) => Outcome::Failed("panicked (see below)".into()),
    };
    if matches!(ended, Outcome::Failed(_)) {
        context.temp.print_logs(40);
    }
    let written = serde_json::to_vec(&ended).map_err(std::io::Error::from);
    if let Err(error) = written.and_then(|bytes| std::fs::write(outcome, bytes)) {
        return abort(&format!("{}: {error}", outcome.display()));
    }
    ExitCode::SUCCESS
}

fn explain(failure: &Failure, problems: &[String]) -> String {
    let mut text = failure.to_string();
    let mut cause = std::error::Error::source(failure);
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    for problem in problems {
        text = format!("{text}\nalso: {problem}");
    }
    text
}
