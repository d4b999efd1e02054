//! `cargo xtask fuzz`: builds the fuzz targets of `tests/fuzz` and runs them, as many at a time as there are
//! CPUs.

mod libfuzzer;
mod report;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;
use std::{env, fs};

use parking_lot::Mutex;
use thiserror::Error;

use crate::setup::{self, Purpose, SetupError};
use libfuzzer::{Run, Settings};
use xtask_common::files::{self, FileError};
use xtask_common::layout::Layout;
use xtask_common::process::{self, CommandError};

/// Folder of the targets' package.
const PACKAGE: &str = "tests/fuzz";

/// Arguments of `cargo xtask fuzz`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The inputs that reach new code are kept in target/fuzz/corpus, and the next run begins with them; \
    target/fuzz/artifacts has the inputs that crash a target, take 10 seconds or 512 MB. Needs a C++ compiler (g++)."
)]
pub struct Args {
    /// Only these targets: the names of the files in tests/fuzz/targets; all if none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Time for all of them together, which is divided equally; without it a minute each
    #[arg(long)]
    minutes: Option<f64>,
}

/// The targets could not be run (a crash is not this).
#[derive(Debug, Error)]
pub enum FuzzError {
    /// No target has this name.
    #[error("there is no fuzz target {name:?}; there are {}", all.join(", "))]
    Name {
        /// The name.
        name: String,
        /// The names that there are.
        all: Vec<String>,
    },
    /// The time is no number of minutes.
    #[error("{0} minutes is no time to fuzz for")]
    Minutes(f64),
    /// libFuzzer is C++.
    #[error(
        "libFuzzer is compiled with {compiler}, which does not run\n  what to do: install g++, or name a C++ compiler in CXX"
    )]
    Compiler {
        /// The compiler.
        compiler: String,
        /// Why.
        source: CommandError,
    },
    /// A folder can't be read or made.
    #[error("cannot read {}", path.display())]
    Read {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A folder can't be made.
    #[error(transparent)]
    File(#[from] FileError),
    /// Something it needs could not be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The targets could not be built or started.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// `cargo xtask fuzz`. Closes with a table of what each target did; fails when an input crashed one.
///
/// # Errors
/// When the arguments make no sense, or a target can't be built or started.
pub fn run(layout: &Layout, args: &Args) -> Result<ExitCode, FuzzError> {
    let names = chosen(&all(layout)?, &args.names)?;
    let jobs = thread::available_parallelism().map_or(1, usize::from).min(names.len());
    let each = time_of_each(args.minutes, names.len(), jobs)?;
    let compiler = env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    process::capture(layout.command(&compiler).arg("--version"))
        .map_err(|source| FuzzError::Compiler { compiler, source })?;
    setup::ensure(layout, Purpose::Fuzz)?;
    build(layout, &names)?;
    println!("{} targets, {} s each, {jobs} at a time", names.len(), each.as_secs());
    let runs = run_all(layout, &names, each, jobs)?;
    print!("\n{}", report::table(&runs));
    for run in &runs {
        print!("{}", report::crash(run));
    }
    let crashed = runs.iter().any(Run::is_bad);
    Ok(if crashed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The names of all targets, sorted.
fn all(layout: &Layout) -> Result<Vec<String>, FuzzError> {
    let path = layout.root.join(PACKAGE).join("targets");
    let read = |source| FuzzError::Read { path: path.clone(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(&path).map_err(read)? {
        let file = entry.map_err(read)?.file_name().to_string_lossy().into_owned();
        names.extend(file.strip_suffix(".rs").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// The wanted ones of all names: all if none is named, each once.
fn chosen(all: &[String], wanted: &[String]) -> Result<Vec<String>, FuzzError> {
    if let Some(name) = wanted.iter().find(|name| !all.contains(name)) {
        return Err(FuzzError::Name { name: name.clone(), all: all.to_vec() });
    }
    Ok(all.iter().filter(|name| wanted.is_empty() || wanted.contains(name)).cloned().collect())
}

/// How long each of so many targets runs, at least a second; `minutes` is the time for all of them.
fn time_of_each(minutes: Option<f64>, targets: usize, jobs: usize) -> Result<Duration, FuzzError> {
    let Some(minutes) = minutes else { return Ok(Duration::from_secs(60)) };
    if !(minutes > 0.0 && minutes < 1e6) {
        return Err(FuzzError::Minutes(minutes));
    }
    // Some jobs have one target less when they do not divide equally.
    let rounds = targets.div_ceil(jobs.max(1)).max(1);
    Ok(Duration::from_secs_f64((minutes * 60.0 / rounds as f64).round().max(1.0)))
}

/// Builds the programs of the targets. The sanitizer's options are not yet stable in the pinned compiler.
fn build(layout: &Layout, names: &[String]) -> Result<(), FuzzError> {
    let mut command = layout.command(layout.tool("cargo-fuzz"));
    command.args(["build", "--fuzz-dir", PACKAGE, "--features", "libfuzzer", "--target-dir"]);
    command.arg(layout.fuzz_target()).env("RUSTC_BOOTSTRAP", "1");
    // One target can be named, or none for all.
    if let [name] = names {
        command.arg(name);
    }
    println!("building with {}", process::line(&command));
    Ok(process::show(&mut command)?)
}

/// Runs the targets, `jobs` at a time; in the order of `names`.
fn run_all(layout: &Layout, names: &[String], each: Duration, jobs: usize) -> Result<Vec<Run>, FuzzError> {
    let settings = names.iter().map(|name| settings(layout, name, each)).collect::<Result<Vec<_>, _>>()?;
    let queue = Mutex::new(settings.iter().enumerate());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().next();
                    let Some((at, settings)) = next else { return };
                    let run = libfuzzer::run(settings);
                    done.lock().push((at, run));
                }
            });
        }
    });
    let mut done = done.into_inner();
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, run)| run).collect::<Result<_, _>>()?)
}

/// Where a target's program and inputs are; its folders are made.
fn settings(layout: &Layout, name: &str, time: Duration) -> Result<Settings, FuzzError> {
    let target = layout.fuzz_target();
    let program = target.join(format!("{}-unknown-linux-gnu/release", env::consts::ARCH)).join(name);
    let settings = Settings {
        name: name.to_owned(),
        program,
        seeds: layout.root.join(PACKAGE).join("corpus").join(name),
        corpus: target.join("corpus").join(name),
        artifacts: target.join("artifacts").join(name),
        folder: layout.root.clone(),
        time,
    };
    files::create_folder(&settings.corpus)?;
    files::create_folder(&settings.artifacts)?;
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_chosen_by_name() {
        let all = ["a", "b", "c"].map(str::to_owned);
        let chosen = |wanted: &[&str]| {
            let wanted: Vec<_> = wanted.iter().map(|name| (*name).to_owned()).collect();
            chosen(&all, &wanted).map_err(|error| error.to_string())
        };
        assert_eq!(chosen(&[]).unwrap(), all);
        assert_eq!(chosen(&["c", "a", "c"]).unwrap(), ["a", "c"]);
        assert_eq!(chosen(&["x"]).unwrap_err(), "there is no fuzz target \"x\"; there are a, b, c");
    }

    #[test]
    fn the_time_is_divided_among_the_targets() {
        for (minutes, targets, jobs, seconds) in [
            (None, 19, 2, 60),
            (Some(10.0), 1, 1, 600),
            (Some(60.0), 19, 2, 360),
            (Some(1.0), 19, 1, 3),
            (Some(0.001), 19, 1, 1),
        ] {
            assert_eq!(time_of_each(minutes, targets, jobs).unwrap().as_secs(), seconds, "{minutes:?}");
        }
        for minutes in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(time_of_each(Some(minutes), 1, 1).is_err(), "{minutes}");
        }
    }
}
