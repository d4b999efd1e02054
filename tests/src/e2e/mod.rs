//! The end-to-end tests: the agent's behaviour on a real kernel, compared with the kernel's own files and
//! counters.

pub(crate) mod augment;
mod block;
mod capacity;
mod cgroup_life;
pub(crate) mod cluster;
mod command_line;
mod cpu;
mod daemons;
mod destroy;
pub(crate) mod devices;
mod documents;
mod endpoints;
mod exclusive_cpus;
mod features;
mod full_ring;
pub(crate) mod gc;
pub(crate) mod hierarchy;
mod journal;
mod late;
mod limits;
mod neighbours;
mod network;
mod newer_api;
mod node_shutdown;
mod offsets;
mod oom;
mod oom_score;
mod oom_storm;
mod own_process;
mod packages;
pub(crate) mod page;
pub(crate) mod pods;
pub(crate) mod pressure;
mod privileges;
pub(crate) mod probes;
mod process;
mod programs;
mod prometheus;
mod reclaim;
mod refused;
mod resource_managers;
mod shipped_unit;
mod shutdown;
pub(crate) mod stand_in;
pub(crate) mod support;
mod systemd_bounds;
mod systemd_driver;
mod systemd_driver_life;
pub(crate) mod throttle;
mod top;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::harness::{Beside, Options, Test, run};

/// End-to-end tests of nodewarden on this machine's kernel. Needs root.
#[derive(Parser)]
#[command(name = "nodewarden-e2e", version)]
struct Arguments {
    /// Only tests whose name contains one of these
    filters: Vec<String>,
    /// The agent's binary (default: `nodewarden` in the directory of this one)
    #[arg(long)]
    agent: Option<PathBuf>,
    /// Print the names of the tests and what each needs
    #[arg(long)]
    list: bool,
    /// Instead of tests: what works, falls back or is off on this kernel, one JSON object per line
    #[arg(long)]
    features: bool,
    /// Print one JSON object per test
    #[arg(long)]
    json: bool,
    /// Factor on every time-out, for emulated machines
    #[arg(long, default_value_t = 1)]
    patience: u32,
    /// How many of the tests that do not disturb each other run at a time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// How many tests that fail are run a second time, alone and after all others; what passes then is named
    /// at the end
    #[arg(long, default_value_t = 0, conflicts_with = "json")]
    second_attempts: usize,
    /// Only one part of the tests; together they are all
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// Only the test of exactly this name
    #[arg(long, hide = true)]
    exact: Option<String>,
    #[arg(long, hide = true, requires = "runner", requires = "outcome")]
    single: Option<String>,
    #[arg(long, hide = true)]
    runner: Option<u32>,
    #[arg(long, hide = true)]
    outcome: Option<PathBuf>,
}

/// Parts of the tests, so that what tests in a cluster share is not there while others measure times.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Tests that run alone or a few at a time, but for those in a cluster
    First,
    /// Tests in a cluster, and those of which several run at a time
    Second,
}

impl Part {
    fn of(test: &Test) -> Self {
        let is_second = test.beside == Beside::Some || test.name.starts_with(cluster::PREFIX);
        if is_second { Self::Second } else { Self::First }
    }
}

/// Every test, in the order they run: the workloads first, since the others depend on them.
pub fn tests() -> Vec<Test> {
    [
        workloads::TESTS,
        endpoints::TESTS,
        programs::TESTS,
        command_line::TESTS,
        top::TESTS,
        documents::TESTS,
        oom::TESTS,
        oom_score::TESTS,
        offsets::TESTS,
        limits::TESTS,
        oom_storm::TESTS,
        own_process::TESTS,
        privileges::TESTS,
        cgroup_life::TESTS,
        process::TESTS,
        cpu::TESTS,
        exclusive_cpus::TESTS,
        neighbours::TESTS,
        network::TESTS,
        block::TESTS,
        reclaim::TESTS,
        capacity::TESTS,
        full_ring::TESTS,
        late::TESTS,
        journal::TESTS,
        &newer_api::tests(),
        &pods::tests(),
        stand_in::TESTS,
        stand_in::rates::TESTS,
        &resource_managers::tests(),
        &probes::tests(),
        &devices::tests(),
        &gc::tests(),
        &pressure::tests(),
        throttle::TESTS,
        &augment::tests(),
        destroy::TESTS,
        systemd_driver::TESTS,
        systemd_bounds::TESTS,
        systemd_driver_life::TESTS,
        node_shutdown::TESTS,
        daemons::TESTS,
        refused::TESTS,
        prometheus::TESTS,
        &page::tests(),
        &packages::tests(),
        shipped_unit::TESTS,
        shutdown::TESTS,
        &hierarchy::tests(),
        &cluster::tests(),
    ]
    .concat()
}

/// Runs the command line of `nodewarden-e2e`.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut tests = tests();
    if let Some(part) = arguments.part {
        tests.retain(|test| Part::of(test) == part);
    }
    if arguments.list {
        for test in &tests {
            println!("{} {:?}", test.name, test.needs);
        }
        return ExitCode::SUCCESS;
    }
    let agent = crate::harness::agent_path(arguments.agent);
    let patience = arguments.patience.max(1);
    if arguments.features {
        return match features::report(agent, patience) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("nodewarden-e2e: {failure}");
                ExitCode::FAILURE
            }
        };
    }
    let single = match (arguments.single, arguments.runner, arguments.outcome) {
        (Some(name), Some(runner), Some(outcome)) => Some((name, runner, outcome)),
        _ => None,
    };
    let (filters, json, jobs) = (arguments.filters, arguments.json, arguments.jobs);
    let (exact, second_attempts) = (arguments.exact, arguments.second_attempts);
    run(&tests, &Options { agent, filters, exact, json, patience, jobs, second_attempts, single })
}

#[cfg(test)]
mod unit {
    use std::collections::BTreeSet;

    use nodewarden_guest_job::{FILE_TESTS, KERNEL_TESTS, RUNTIME_TESTS, SYSTEMD_TESTS, V1_TESTS};

    #[test]
    fn every_name_for_guests_matches_a_test() {
        let tests = super::tests();
        for part in [KERNEL_TESTS, FILE_TESTS, V1_TESTS, SYSTEMD_TESTS, RUNTIME_TESTS].concat() {
            assert!(tests.iter().any(|test| test.name.contains(part)), "{part}");
        }
    }

    #[test]
    fn names_are_unique() {
        let tests = super::tests();
        let names: BTreeSet<_> = tests.iter().map(|test| test.name).collect();
        assert_eq!(names.len(), tests.len());
    }
}
