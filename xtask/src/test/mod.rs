//! `cargo xtask test`: checks, unit tests and end-to-end tests on this kernel and on others, counted
//! together.

mod checks;
mod clock;
mod cluster;
pub mod compiler;
mod conformance;
mod e2e;
mod meanwhile;
mod unit;
mod vm;

use std::io::{IsTerminal, stderr};
use std::process::ExitCode;

use clap::ValueEnum;
use thiserror::Error;

use crate::build::{self, BuildError};
use crate::layers::LayersError;
use crate::setup::{self, Part, Purpose, SetupError};
use clock::Clock;
use nodewarden_vm::VmError;
use xtask_common::files::FileError;
use xtask_common::layout::{self, Layout};
use xtask_common::process::CommandError;
use xtask_common::tally::Tally;

/// Which tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Everything: formatting, lints, unit and end-to-end tests, also on other kernels
    All,
    /// Formatting, lints, the order of layers, documentation, licences, advisories and the Helm chart
    Checks,
    /// The tests in the code, the golden ones among them
    Unit,
    /// The tests that compare with the recorded kubelet
    Golden,
    /// The agent on this machine's kernel
    E2e,
    /// The agent on other kernels, in virtual machines
    Vm,
    /// The node in a Kubernetes cluster of 1.20.2, with kubectl and the scheduler
    Cluster,
    /// Kubernetes' own tests of a node
    Conformance,
}

/// Arguments of `cargo xtask test`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Closes with the line `N passed, N failed, N skipped`. Formatting, lints and licences \
    count as one test each. Recorded kubelet values are read from $NODEWARDEN_GOLDEN, else ../shared/golden."
)]
pub struct Args {
    /// all, checks, unit, golden, e2e, vm, cluster or conformance; anything else is a filter over all
    #[arg(value_name = "KIND")]
    kind: Option<String>,
    /// Only tests whose name contains this (conformance: matches this); leaves the checks out
    filter: Option<String>,
    /// Leave out formatting, lints, licences and other kernels, and test an agent that is not optimised
    #[arg(long)]
    quick: bool,
    /// With cluster and conformance: the real kubelet in place of nodewarden
    #[arg(long)]
    kubelet: bool,
    /// With conformance: how many tests run at a time
    #[arg(long, default_value_t = 3)]
    jobs: usize,
    /// With conformance: leave out tests that match this
    #[arg(long, value_name = "REGEX")]
    skip: Option<String>,
    /// With conformance: write docs/CONFORMANCE.md from the results of nodewarden and of the kubelet
    #[arg(long)]
    write_table: bool,
}

/// The tests could not be run (a failing test is not this).
#[derive(Debug, Error)]
pub enum TestError {
    /// The first of two arguments is not a kind of tests.
    #[error(
        "{0:?} is no kind of tests; there are all, checks, unit, golden, e2e, vm, cluster and conformance"
    )]
    Kind(String),
    /// Something they need could not be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The programs under test could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The order of layers could not be looked at.
    #[error(transparent)]
    Layers(#[from] LayersError),
    /// A test runner could not be run.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file for a check could not be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Guests could not be booted.
    #[error(transparent)]
    Vm(#[from] VmError),
}

/// `cargo xtask test`. Always closes with the counts: an error on the way counts as a failed test.
///
/// # Errors
/// When the arguments make no sense.
pub fn run(layout: &Layout, args: &Args) -> Result<ExitCode, TestError> {
    let (kind, filter) = what(args.kind.as_deref(), args.filter.as_deref())?;
    let mut tally = Tally::default();
    let mut clock = Clock::start();
    let quick = args.quick;
    let done = match kind {
        Kind::Cluster => cluster::run(layout, filter, quick, args.kubelet, &mut clock, &mut tally),
        Kind::Conformance => {
            let run = conformance::Run {
                focus: filter,
                kubelet: args.kubelet,
                jobs: args.jobs,
                skip: args.skip.as_deref(),
                table: args.write_table,
            };
            conformance::run(layout, &run, &mut clock, &mut tally)
        }
        kind => run_kind(layout, kind, filter, quick, &mut clock, &mut tally),
    };
    if let Err(error) = done {
        crate::report(&error);
        tally.fail("not all tests could be built and run, see the error above");
        clock.ended("until that error");
    }
    print!("\n{}{}", clock.summary(), tally.summary());
    Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_kind(
    layout: &Layout,
    kind: Kind,
    filter: Option<&str>,
    quick: bool,
    clock: &mut Clock,
    tally: &mut Tally,
) -> Result<(), TestError> {
    let guests = kind == Kind::Vm || (kind == Kind::All && !quick);
    let mut fetching = guests.then(|| vm::Fetching::begin(layout));
    // What takes minutes and is needed late is set up while the first end-to-end tests run, which mostly
    // wait.
    let everything = kind == Kind::All && filter.is_none() && !quick;
    let later = everything && layout::is_root();
    // And what is downloaded while the code is checked, unless its progress would be mixed with cargo's.
    let meanwhile = later && !stderr().is_terminal();
    let first = match (later, meanwhile) {
        (true, true) => Part::Compilers,
        (true, false) => Part::First,
        (false, _) => Part::All,
    };
    setup::ensure_part(layout, Purpose::Test, first)?;
    build::kernel_programs(layout, true)?;
    clock.ended("setup");
    let downloads = meanwhile.then(|| meanwhile::Setup::begin_downloading(layout));
    if everything || kind == Kind::Checks {
        checks::code(layout, tally)?;
        if !everything {
            // Else the build of the unit tests lints and documents what it compiles, and the chart follows
            // them: what it needs is downloaded meanwhile.
            checks::lints(layout, tally)?;
            checks::documents(layout, tally)?;
            checks::chart(layout, tally)?;
        }
        if !later {
            checks::dependencies(layout, tally)?;
        }
        clock.ended("checks");
    }
    if matches!(kind, Kind::All | Kind::Unit | Kind::Golden) {
        let then = (kind == Kind::All && !quick && layout::is_root()).then_some(layout);
        let scope = unit::Scope { golden_only: kind == Kind::Golden, filter, lint: everything };
        let mut downloaded = Ok(());
        let built = || {
            downloaded = downloads.map_or(Ok(()), meanwhile::Setup::wait);
            then.into_iter().for_each(e2e::build_ahead);
        };
        unit::run(layout, scope, tally, built)?;
        downloaded?;
        if everything {
            checks::chart(layout, tally)?;
        }
        clock.ended("unit tests");
    }
    if matches!(kind, Kind::All | Kind::E2e) {
        let mut rest = None;
        let mut before = || {
            fetching.iter_mut().for_each(vm::Fetching::wait);
            rest = later.then(|| meanwhile::Setup::begin_compiling(layout));
        };
        e2e::run(layout, filter, quick, clock, tally, &mut before)?;
        clock.ended("end-to-end tests");
        if let Some(rest) = rest {
            rest.wait()?;
            checks::dependencies(layout, tally)?;
            clock.ended("rest of the setup, checks of dependencies");
        }
        if filter.is_none() && layout::is_root() {
            cluster::run_second_part(layout, clock, tally)?;
        }
    }
    fetching.iter_mut().for_each(vm::Fetching::wait);
    if guests {
        tally.add(vm::run(layout, filter, clock)?);
        clock.ended("virtual machines");
    }
    Ok(())
}

/// A lone argument that names no kind is a filter.
fn what<'a>(kind: Option<&'a str>, filter: Option<&'a str>) -> Result<(Kind, Option<&'a str>), TestError> {
    match (kind, filter) {
        (None, filter) => Ok((Kind::All, filter)),
        (Some(word), filter) => match (Kind::from_str(word, true), filter) {
            (Ok(kind), filter) => Ok((kind, filter)),
            (Err(_), None) => Ok((Kind::All, Some(word))),
            (Err(_), Some(_)) => Err(TestError::Kind(word.to_owned())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_word_is_a_kind_or_a_filter() {
        assert_eq!(what(None, None).unwrap(), (Kind::All, None));
        assert_eq!(what(Some("e2e"), None).unwrap(), (Kind::E2e, None));
        assert_eq!(what(Some("vm"), Some("oom")).unwrap(), (Kind::Vm, Some("oom")));
        assert_eq!(what(Some("oom"), None).unwrap(), (Kind::All, Some("oom")));
        assert_eq!(what(Some("unit"), Some("oom")).unwrap(), (Kind::Unit, Some("oom")));
        assert!(matches!(what(Some("units"), Some("oom")), Err(TestError::Kind(_))));
    }
}
