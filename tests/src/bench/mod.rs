//! The benches: figures with bounds, measured on the running machine. What is compared is measured in turn within
//! one run.

mod cgroups;
mod devices;
mod events;
mod eviction;
mod feedback;
mod figure;
mod overhead;
mod pods;
mod probes;
mod scrape;
mod statistics;

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
    /// What it measures, in a line.
    fn about(&self) -> &'static str;
    /// # Errors
    /// What kept it from measuring: a bound that is missed is no error.
    fn run(&self, run: &Run<'_>) -> Result<Vec<Figure>, Failure>;
}

/// What a bench is given.
pub struct Run<'a> {
    pub context: &'a Context,
    /// Fewer rounds: a look, not a record.
    pub quick: bool,
    /// Of the benches of pods, devices and probes.
    pub sizes: Sizes,
}

/// How much of it, where not as usual.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Sizes {
    /// Of `pods` and `devices`: how many at most; of `probes`: how many of 50 containers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=1000).map(usize::from))]
    pub pods: Option<usize>,
    /// Of `pods`: starts and ends of one pod, each by the agent and by bare calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=999).map(usize::from))]
    pub pairs: Option<usize>,
    /// Of `pods`: how long idle pods are measured; of `probes`: how long they are
    #[arg(long, value_name = "SECONDS")]
    pub idle: Option<u64>,
}

impl Run<'_> {
    /// Says what goes on. Standard output is for the figures.
    pub fn progress(&self, text: &str) {
        eprintln!("{}: {text}", self.context.name);
    }
}

/// Every bench. Later ones are added here.
const BENCHES: &[&dyn Bench] = &[
    &events::Events,
    &overhead::Overhead,
    &scrape::Scrape,
    &cgroups::Cgroups,
    &pods::Pods,
    &devices::Devices,
    &probes::Probes,
    &eviction::Eviction,
    &feedback::Feedback,
];

/// Figures of nodewarden on this machine, each with its bound. Needs root.
#[derive(Parser)]
#[command(name = "nodewarden-bench", version)]
struct Arguments {
    /// A bench, `all`, or `list`
    name: String,
    /// One JSON object a figure
    #[arg(long)]
    json: bool,
    /// Fewer rounds
    #[arg(long)]
    quick: bool,
    /// The agent's binary (default: `nodewarden` beside this one)
    #[arg(long)]
    agent: Option<PathBuf>,
    /// Factor on every time-out: emulated machines are slow. Bounds are not stretched
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
    let result = bench.run(&Run { context: &context, quick: arguments.quick, sizes: arguments.sizes });
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
