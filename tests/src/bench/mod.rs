//! The benches: they measure figures on the running machine and compare them with bounds. Variants that are
//! compared are measured in turn within one run.

mod augment;
mod cgroups;
mod devices;
mod disk_use;
mod events;
mod eviction;
mod exclusive;
mod exclusive_cpus;
mod figure;
mod node;
mod overhead;
mod pods;
mod probes;
mod scrape;
mod statistics;
mod thousand;
mod throttle;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::TypedValueParser as _;

pub use figure::{Bound, Figure};

use crate::fixture::Layout;
use crate::harness::{Context, Failure};

/// One bench.
pub trait Bench {
    fn name(&self) -> &'static str;
    /// What it measures, in one line.
    fn about(&self) -> &'static str;
    /// # Errors
    /// The bench could not measure. A missed bound is no error.
    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure>;
}

/// The arguments of a bench.
pub struct Run<'a> {
    pub context: &'a Context,
    /// Whether to run fewer rounds.
    pub quick: bool,
    /// Sizes for the benches of pods, devices and probes.
    pub sizes: Sizes,
}

/// Sizes that replace the default ones.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Sizes {
    /// For `pods`, `node`, `augment-cost`, `devices` and `thousand`: number of pods at most; for `probes`:
    /// number of pods with 50 containers each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=1000).map(usize::from))]
    pub pods: Option<usize>,
    /// For `pods` and `node`: how often one pod is started and ended; for `augment`: rounds of each kind at
    /// each rate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=999).map(usize::from))]
    pub pairs: Option<usize>,
    /// For `pods`, `node`, `augment-cost` and `thousand`: how long idle pods are measured; for `probes`: how
    /// long the probes are measured
    #[arg(long, value_name = "SECONDS")]
    pub idle: Option<u64>,
    /// For `pods`: how often the most pods are started and ended, by the agent once and by bare calls twice
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=9).map(usize::from))]
    pub rounds: Option<usize>,
    /// For `augment`: only this rate, 100 or 500 (MB/s), or 0 for as fast as it can; each takes half an hour
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<u64>,
    /// For `thousand`: also writes the growth of its figures into this file, as a picture (SVG)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
}

/// A rate of MB/s in bytes a second.
fn rate(text: &str) -> Result<u64, String> {
    let known = eviction::PACES.map(|(_, rate)| rate);
    let wanted = text.parse::<u64>().ok().map(|megabytes| megabytes * 1_000_000);
    wanted.filter(|rate| known.contains(rate)).ok_or_else(|| "expected 100, 500 or 0".to_owned())
}

impl Run<'_> {
    /// Prints progress to standard error. Standard output is for the figures.
    pub fn progress(&self, text: &str) {
        eprintln!("{}: {text}", self.context.name);
    }
}

const BENCHES: &[&dyn Bench] = &[
    &events::Events,
    &overhead::Overhead,
    &exclusive_cpus::ExclusiveCpus,
    &exclusive::Exclusive,
    &scrape::Scrape,
    &cgroups::Cgroups,
    &pods::Pods,
    &node::Node,
    &devices::Devices,
    &probes::Probes,
    &eviction::Eviction,
    &augment::Augment,
    &augment::AugmentEvents,
    &augment::AugmentCost,
    &disk_use::DiskUse,
    &throttle::Throttle,
    &thousand::Thousand,
];

/// Measures nodewarden on this machine and compares the figures with their bounds. Needs root.
#[derive(Parser)]
#[command(name = "nodewarden-bench", version)]
struct Arguments {
    /// Name of a bench, `all`, or `list`
    name: String,
    /// Print one JSON object per figure
    #[arg(long)]
    json: bool,
    /// Run fewer rounds
    #[arg(long)]
    quick: bool,
    /// The agent's binary (default: `nodewarden` in the directory of this program)
    #[arg(long)]
    agent: Option<PathBuf>,
    /// Factor for every time-out, for slow emulated machines. Bounds are not multiplied
    #[arg(long, value_name = "FACTOR", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    patience: u32,
    #[command(flatten)]
    sizes: Sizes,
}

/// Runs the command line of `nodewarden-bench`. Fails if a bound is missed or a bench could not measure.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.name == "list" {
        for bench in BENCHES {
            println!("{:<10} {}", bench.name(), bench.about());
        }
        return ExitCode::SUCCESS;
    }
    let chosen: Vec<_> =
        BENCHES.iter().filter(|bench| arguments.name == "all" || bench.name() == arguments.name).collect();
    if chosen.is_empty() {
        eprintln!("nodewarden-bench: no bench {}; see `nodewarden-bench list`", arguments.name);
        return ExitCode::from(2);
    }
    if !nix::unistd::geteuid().is_root() {
        eprintln!("nodewarden-bench: not root");
        return ExitCode::from(2);
    }
    let agent = crate::harness::agent_path(arguments.agent.clone());
    if !agent.is_file() {
        eprintln!("nodewarden-bench: no agent at {}", agent.display());
        return ExitCode::from(2);
    }
    crate::harness::clean_up_when_interrupted();

    let mut good = true;
    for bench in chosen {
        match measure(*bench, agent.clone(), &arguments) {
            Ok(figures) => {
                for figure in figures {
                    good &= figure.holds;
                    println!("{}", if arguments.json { figure.json() } else { figure.line() });
                }
            }
            Err(failure) => {
                good = false;
                eprintln!("{}: {failure}", bench.name());
            }
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure(bench: &dyn Bench, agent: PathBuf, arguments: &Arguments) -> Result<Vec<Figure>, Failure> {
    let own = std::env::current_exe().map_err(Failure::file("own binary"))?;
    let name = format!("bench-{}", bench.name());
    let context = Context::new(agent, own, &name, std::process::id(), arguments.patience, Layout::detect()?)
        .map_err(Failure::file(std::env::temp_dir()))?;
    let result =
        bench.run(&Run { context: &context, quick: arguments.quick, sizes: arguments.sizes.clone() });
    if result.is_err() {
        context.temp.print_logs(20);
    }
    for problem in context.problems().take() {
        eprintln!("{name}: {problem}");
    }
    result
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_not_reserved() {
        let names: BTreeSet<_> = super::BENCHES.iter().map(|bench| bench.name()).collect();
        assert_eq!(names.len(), super::BENCHES.len());
        assert!(!names.contains("all") && !names.contains("list"));
    }
}
