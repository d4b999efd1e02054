//! Pods changed and removed at random while the agent is killed and containerd restarted, for as long as one likes:
//! `nodewarden-stage soak`, and a minute of it among the tests.

mod churn;
mod evidence;
mod manifests;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::fixture::Layout;
use crate::harness::{Context, Failure};
pub use churn::{Plan, Summary, churn};

/// Arguments of `nodewarden-stage soak`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Pods from manifests, changed and removed at random; agent and containerd are ended and started meanwhile
    Pods {
        /// How many manifests there are at most
        #[arg(long, default_value_t = 100)]
        pods: u64,
        /// How long things change
        #[arg(long, default_value_t = 10.0)]
        minutes: f64,
        /// The same seed makes the same changes; their times are the machine's
        #[arg(long)]
        seed: Option<u64>,
    },
}

/// Runs it and says what was found.
pub fn main(agent: &Path, args: &Args) -> ExitCode {
    crate::harness::clean_up_when_interrupted();
    let What::Pods { pods, minutes, seed } = args.what;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let plan = Plan {
        pods,
        duration: Duration::from_secs_f64(minutes.max(0.1) * 60.0),
        seed: seed.unwrap_or(now),
        containerd_restarts: 2,
    };
    match run(agent, &plan) {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("soak pods (--seed {}): {failure}", plan.seed);
            ExitCode::FAILURE
        }
    }
}

fn run(agent: &Path, plan: &Plan) -> Result<Summary, Failure> {
    let own = std::env::current_exe().map_err(Failure::file("own binary"))?;
    let context = Context::new(agent.to_owned(), own, "soak-pods", std::process::id(), 1, Layout::detect()?)
        .map_err(Failure::file(std::env::temp_dir()))?;
    let result = churn(&context, plan, |text| eprintln!("soak pods: {text}"));
    if result.is_err() {
        context.temp.print_logs(40);
    }
    let problems = context.problems().take();
    let summary = result?;
    if problems.is_empty() { Ok(summary) } else { Err(Failure::Unexpected(problems.join("\n"))) }
}
