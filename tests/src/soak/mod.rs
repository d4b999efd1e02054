//! Soak tests: random changes for a long time (`nodewarden-stage soak`), and short runs of the same among the
//! end-to-end tests. Pods are changed and removed at random while the agent is killed and containerd
//! restarted; allocations of devices are interrupted at every step; images are collected while they are used;
//! pods use up what the node has while things fail; Deployments and Jobs of a real cluster change while
//! everything that a node needs is killed in turn; whatever writes in mode augment is killed at every step,
//! and undone; and mode augment beside a real kubelet.

mod allocations;
mod augment;
mod churn;
mod cluster;
mod collections;
mod evidence;
mod manifests;
mod pressure;
mod seeded;
mod undo;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::fixture::Layout;
use crate::harness::{Context, Failure};
pub use allocations::{Rounds, Tally, allocations};
pub use augment::{AugmentSummary, augment};
pub use churn::{Plan, Summary, churn};
pub use cluster::{ClusterSummary, cluster};
pub use collections::{Collected, collections};
pub use pressure::{PressureSummary, pressure};
pub use seeded::SeededRounds;
pub use undo::{Undone, undo};

/// Arguments of `nodewarden-stage soak`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Factor on every time-out, for emulated machines
    #[arg(long, global = true, default_value_t = 1)]
    patience: u32,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Change and remove pods' manifests at random while the agent is killed and containerd restarted
    Pods {
        /// Largest number of manifests
        #[arg(long, default_value_t = 100)]
        pods: u64,
        /// How long manifests are changed
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// Seed of the random changes; their times still depend on the machine
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Allocate devices to pods and kill the agent at every step of that
    Devices {
        /// Number of rounds
        #[arg(long, default_value_t = 1000)]
        rounds: u64,
        /// Seed of the random requests; the times still depend on the machine
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Collect unused images all the time while pods and images come and go and the agent is killed
    Gc {
        /// Number of changes
        #[arg(long, default_value_t = 500)]
        rounds: u64,
        /// Seed of the random changes; their times still depend on the machine
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Change Deployments, Jobs and config maps of a real cluster while agent, runtime and API server are
    /// killed in turn
    Cluster(RoundArgs),
    /// Change Deployments and Jobs of a real kubelet beside mode augment, while both are killed in turn
    Augment(RoundArgs),
    /// Kill mode augment at every step of every write, and have `nodewarden undo` put everything back
    Undo {
        /// Number of rounds
        #[arg(long, default_value_t = 1000)]
        rounds: u64,
        /// Seed of the random writes; the times still depend on the machine
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Let pods use up memory, disks, inodes and pids while the agent, its runtime, a file system or the
    /// clock fails
    Pressure(RoundArgs),
}

/// Of a soak that begins rounds for some time.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct RoundArgs {
    /// How long rounds are begun
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Seed of the rounds; their times still depend on the machine
    #[arg(long)]
    seed: Option<u64>,
    /// Only the round with this seed
    #[arg(long)]
    round: Option<u64>,
}

impl RoundArgs {
    /// `now`: the seed if none is given.
    fn plan(self, now: u64) -> SeededRounds {
        let duration = Duration::from_secs_f64(self.minutes.max(0.1) * 60.0);
        SeededRounds { duration, seed: self.seed.unwrap_or(now), round: self.round }
    }
}

/// Runs a soak test and prints its result.
pub fn main(agent: &Path, args: &Args) -> ExitCode {
    crate::harness::clean_up_when_interrupted();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (what, seed, done) = match args.what {
        What::Pods { pods, minutes, seed } => {
            let plan = Plan {
                pods,
                duration: Duration::from_secs_f64(minutes.max(0.1) * 60.0),
                seed: seed.unwrap_or(now),
                containerd_restarts: 2,
            };
            let run = |context: &Context, progress: &dyn Fn(&str)| churn(context, &plan, progress);
            ("pods", plan.seed, run_one(agent, args.patience, "pods", run).map(|summary| summary.to_string()))
        }
        What::Devices { rounds, seed } => {
            let plan = Rounds { rounds, seed: seed.unwrap_or(now) };
            let run = |context: &Context, progress: &dyn Fn(&str)| allocations(context, &plan, progress);
            (
                "devices",
                plan.seed,
                run_one(agent, args.patience, "devices", run).map(|tally| tally.to_string()),
            )
        }
        What::Gc { rounds, seed } => {
            let plan = Rounds { rounds, seed: seed.unwrap_or(now) };
            let run = |context: &Context, progress: &dyn Fn(&str)| collections(context, &plan, progress);
            ("gc", plan.seed, run_one(agent, args.patience, "gc", run).map(|done| done.to_string()))
        }
        What::Undo { rounds, seed } => {
            let plan = Rounds { rounds, seed: seed.unwrap_or(now) };
            let run = |context: &Context, progress: &dyn Fn(&str)| undo(context, &plan, progress);
            ("undo", plan.seed, run_one(agent, args.patience, "undo", run).map(|done| done.to_string()))
        }
        What::Cluster(rounds) => {
            let plan = rounds.plan(now);
            let run = |context: &Context, progress: &dyn Fn(&str)| cluster(context, &plan, progress);
            let done = run_one(agent, args.patience, "cluster", run);
            ("cluster", plan.seed, done.map(|done| done.to_string()))
        }
        What::Augment(rounds) => {
            let plan = rounds.plan(now);
            let run = |context: &Context, progress: &dyn Fn(&str)| augment(context, &plan, progress);
            let done = run_one(agent, args.patience, "augment", run);
            ("augment", plan.seed, done.map(|done| done.to_string()))
        }
        What::Pressure(rounds) => {
            let plan = rounds.plan(now);
            let run = |context: &Context, progress: &dyn Fn(&str)| pressure(context, &plan, progress);
            let done = run_one(agent, args.patience, "pressure", run);
            ("pressure", plan.seed, done.map(|done| done.to_string()))
        }
    };
    match done {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("soak {what} (--seed {seed}): {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run_one<T>(
    agent: &Path,
    patience: u32,
    what: &str,
    run: impl FnOnce(&Context, &dyn Fn(&str)) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let own = std::env::current_exe().map_err(Failure::file("own binary"))?;
    let name = format!("soak-{what}");
    let context = Context::new(agent.to_owned(), own, &name, std::process::id(), patience, Layout::detect()?)
        .map_err(Failure::file(std::env::temp_dir()))?;
    let result = run(&context, &|text| eprintln!("soak {what}: {text}"));
    if result.is_err() {
        context.temp.print_logs(40);
    }
    let problems = context.problems().take();
    let done = result?;
    if problems.is_empty() { Ok(done) } else { Err(Failure::Unexpected(problems.join("\n"))) }
}
