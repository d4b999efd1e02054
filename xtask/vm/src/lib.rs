//! `cargo xtask vm`: boots Debian's kernels in QEMU and runs the end-to-end tests there, also on kernels and
//! with cgroup layouts that this machine does not have.
//!
//! What the guests run has to be built first, tests in cargo's dev profile and what measures in its release
//! profile: [`run`] gets a function for that.

#![deny(missing_docs)]

pub mod assets;
mod bench;
mod boot;
mod cluster;
mod error;
mod guest;
mod initramfs;
mod interrupt;
mod kernels;
mod machine;
mod matrix;
mod oops;
mod prepare;
mod received;
mod refused;
mod selftest;
mod shell;
mod site;
mod soak;
mod suite;
mod table;
mod tsc;
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use nodewarden_guest_job::{
    FILE_TESTS, KERNEL_TESTS, Layout as CgroupLayout, RUNTIME_TESTS, SYSTEMD_TESTS, V1_TESTS,
};
use xtask_common::layout::Layout;
use xtask_common::tally::Tally;

pub use error::{BoxedError, VmError};
pub use guest::KernelChoice;
use guest::{LayoutChoice, MATRIX, choose};
use site::Site;
pub use soak::soak;
use suite::Suite;

/// Time-outs in emulated machines, unless said otherwise, are this many times those on the host.
const PATIENCE: u32 = 5;
/// Guests at a time, unless said otherwise. One alone keeps one CPU nine tenths busy; with a third, two CPUs
/// work while a guest waits. Its memory is 1 GiB.
const JOBS: usize = 3;

/// Arguments of `cargo xtask vm`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the end-to-end tests on other kernels; without options on all of the matrix
    Test(TestArgs),
    /// Run a bench on other kernels: emulated machines are slow, so that its figures are for comparison among
    /// them
    Bench(BenchArgs),
    /// A real Kubernetes control plane on this machine with nodes in guests: one is killed and comes back,
    /// one shuts down
    Cluster(ClusterArgs),
    /// A guest on this terminal, with the agent and the tests in it
    Shell(ShellArgs),
    /// Test the harness itself: guests that must fail, and how long an idle one takes
    Selftest(SelftestArgs),
}

#[derive(Debug, clap::Args)]
struct TestArgs {
    /// Only on this kernel
    #[arg(long, default_value = "all")]
    kernel: KernelChoice,
    /// Only with this cgroup layout
    #[arg(long)]
    layout: Option<LayoutChoice>,
    /// Only with a Debian root and systemd
    #[arg(long)]
    systemd: bool,
    /// Look for newer kernels and a newer QEMU first
    #[arg(long)]
    update: bool,
    /// Write docs/KERNELS.md: what each feature does on each kernel
    #[arg(long)]
    write_table: bool,
    /// Test this agent and not the one that is built, such as one of an older commit
    #[arg(long)]
    agent: Option<PathBuf>,
    #[command(flatten)]
    pace: Pace,
    /// Only tests whose name contains one of these
    filter: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct BenchArgs {
    /// A bench by its name (`cargo xtask bench list`)
    name: String,
    /// Only on this kernel
    #[arg(long, default_value = "all")]
    kernel: KernelChoice,
    /// Only with this cgroup layout
    #[arg(long)]
    layout: Option<LayoutChoice>,
    /// Only with a Debian root and systemd
    #[arg(long)]
    systemd: bool,
    /// Let the guest's clock count its instructions, a nanosecond each, while it works: its figures are then
    /// those of a slow machine and do not depend on this one's speed
    #[arg(long)]
    virtual_time: bool,
    /// Passed on to the bench
    #[arg(last = true)]
    args: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct ClusterArgs {
    /// Only tests whose name contains one of these
    filter: Vec<String>,
}

#[derive(Debug, clap::Args)]
struct ShellArgs {
    /// Which kernel
    #[arg(long)]
    kernel: KernelChoice,
    /// Which cgroup layout
    #[arg(long, default_value = "v2")]
    layout: LayoutChoice,
    /// A Debian root with systemd, containerd and runc
    #[arg(long)]
    systemd: bool,
}

#[derive(Debug, clap::Args)]
struct SelftestArgs {
    #[command(flatten)]
    pace: Pace,
    /// Only those whose name contains one of these
    filter: Vec<String>,
}

#[derive(Debug, Clone, Copy, clap::Args)]
struct Pace {
    /// Factor on every time-out of the tests, since emulated machines are slow
    #[arg(long, default_value_t = PATIENCE)]
    patience: u32,
    /// How many guests run at a time
    #[arg(long, default_value_t = JOBS)]
    jobs: usize,
}

/// What a shell makes of a program that Ctrl-C has ended: 128 and the number of SIGINT.
const INTERRUPTED: u8 = 130;

/// What a command needs to be built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// What guests run.
    Guests,
    /// The same, with programs that measure.
    Bench,
    /// That, and a Kubernetes control plane.
    Cluster,
}

/// Builds what a command needs.
pub type Build<'a> = &'a dyn Fn(Needs) -> Result<(), BoxedError>;

/// `cargo xtask vm`. `build` is called once the options are known to make sense, before the first guest is
/// booted.
///
/// # Errors
/// When guests can't be booted at all.
pub fn run(layout: &Layout, args: &Args, build: Build) -> Result<ExitCode, VmError> {
    let needs = match args.command {
        Command::Cluster(_) => Needs::Cluster,
        Command::Bench(_) => Needs::Bench,
        _ => Needs::Guests,
    };
    match run_command(layout, &args.command, &|| build(needs).map_err(VmError::Build)) {
        Err(VmError::Interrupted) => {
            eprintln!("\ninterrupted");
            Ok(ExitCode::from(INTERRUPTED))
        }
        done => done,
    }
}

fn run_command(
    layout: &Layout,
    command: &Command,
    build: &dyn Fn() -> Result<(), VmError>,
) -> Result<ExitCode, VmError> {
    let tally = match command {
        Command::Test(args) => {
            let guests = choose(args.kernel, args.layout, args.systemd)?;
            build()?;
            let site = Site::new(layout, &guests, args.update, false)?;
            let suite = Suite {
                filters: args.filter.clone(),
                with_v1: args.filter.clone(),
                with_systemd: args.filter.clone(),
                features: args.filter.is_empty() || args.write_table,
                write_table: args.write_table,
                agent: args.agent.clone(),
                ..Suite::of(args.pace)
            };
            let mut tally = suite.run(&site)?;
            // A guest that was asked for by its name must run, so that a missing one is a failure.
            for (guest, reason) in site.missing() {
                tally.fail(format!("{guest}: {reason}"));
            }
            tally
        }
        Command::Bench(args) => {
            let guests = choose(args.kernel, args.layout, args.systemd)?;
            build()?;
            let site = Site::for_bench(layout, &guests)?;
            let mut tally = bench::run(&site, &args.name, &args.args, args.virtual_time)?;
            for (guest, reason) in site.missing() {
                tally.fail(format!("{guest}: {reason}"));
            }
            return Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
        }
        Command::Cluster(args) => {
            build()?;
            cluster::run(layout, &args.filter)?
        }
        Command::Selftest(args) => {
            build()?;
            let site = Site::new(layout, &selftest::guests(), false, false)?;
            selftest::run(&site, &args.filter, args.pace.patience, args.pace.jobs)?
        }
        Command::Shell(args) => {
            let layout_choice = (!args.systemd).then_some(args.layout);
            let guests = choose(args.kernel, layout_choice, args.systemd)?;
            let [guest] = guests[..] else { return Err(VmError::OneKernel) };
            build()?;
            // A Debian root has a shell.
            let busybox = guest.layout != CgroupLayout::Systemd;
            shell::run(&Site::new(layout, &[guest], false, busybox)?, guest)?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    print!("\n{}", tally.summary());
    Ok(if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Downloads and makes what the guests of the matrix need: minutes, most of which are spent waiting for the
/// network.
///
/// # Errors
/// When there is nothing to boot guests with.
pub fn fetch(layout: &Layout) -> Result<(), VmError> {
    prepare::prepare(layout, &MATRIX, false, false)?;
    Ok(())
}

/// The matrix and the harness's own tests, for `cargo xtask test`; the programs are built. What this machine
/// can't boot is counted as skipped.
///
/// # Errors
/// When guests can't be booted for another reason than that something for them can't be had.
pub fn everything(layout: &Layout, filter: Option<&str>) -> Result<Tally, VmError> {
    if filter.is_none() {
        println!("only tests that a kernel can make fail; `cargo xtask vm test` runs all");
    }
    let filters = filter.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let mut tally = Tally::default();
    let site = match Site::new(layout, &MATRIX, false, false) {
        Err(VmError::Prepare(error)) => {
            tally.skip("all tests in virtual machines", error::chain(&error));
            return Ok(tally);
        }
        site => site?,
    };
    let pace = Pace { patience: PATIENCE, jobs: JOBS };
    let tests = |of_guests: &[&str]| match filter {
        None => of_guests.iter().map(|&name| name.to_owned()).collect(),
        Some(_) => filters.clone(),
    };
    let suite = Suite {
        filters: tests(KERNEL_TESTS),
        with_extremes: tests(FILE_TESTS),
        with_v1: tests(V1_TESTS),
        with_systemd: tests(SYSTEMD_TESTS),
        with_runtime: filter.map_or(RUNTIME_TESTS, |_| &[]).iter().map(|&name| name.to_owned()).collect(),
        features: filter.is_none(),
        second_attempts: u32::from(filter.is_none()),
        ..Suite::of(pace)
    };
    tally.add(suite.run(&site)?);
    for (guest, reason) in site.missing() {
        tally.skip(format!("{guest}: all tests"), reason);
    }
    if selftest::any_matches(&filters) {
        tally.add(selftest::run(&site, &filters, pace.patience, pace.jobs)?);
    }
    Ok(tally)
}
