//! The command line: one module a subcommand. Texts come from pure functions; printing and asking the agent
//! stand beside them.

mod agent;

mod client;
mod config;
mod decision;
mod devices;
mod error;
mod event_line;
mod events;
mod exec;
mod explain;
mod format;
mod gc;
mod images;
mod logs;
mod output;
mod plan;
mod pods;
mod simulate;
mod since;
mod status;
mod table;
mod target;
mod terminal;
#[cfg(test)]
mod tests;
mod top;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

pub use error::CliError;
use nodewarden_config::defaults;

const HELP: &str = "\
Examples:
  nodewarden agent --config /etc/nodewarden/config.yaml   start the agent (as root)
  nodewarden top                                          which pod or service uses what, live
  nodewarden events --since 10m --type oom                who was killed for memory, and follow
  nodewarden tree /kubepods                               limits and use, level by level
  nodewarden status                                       what works here, what is off and why
  nodewarden logs -f shop/cart                            what a container writes
  nodewarden exec -it shop/cart -- sh                     a shell in it
  nodewarden pods                                         the pods that the agent runs
  nodewarden pods describe shop/cart                      all about one of them, with its events
  nodewarden devices                                      what device plugins offer, and who has it
  nodewarden images                                       what images are there, and why each stays or would go
  nodewarden gc --dry-run                                 what a collection would remove now
  nodewarden explain shop/cart                            why a pod had to go, or why it waits
  nodewarden simulate --signal memory.available=4Gi       who would have to go now
  nodewarden plan pod.yaml                                the cgroups and limits a manifest leads to

Exit status: 0 done, 1 failed, 2 wrong arguments, 3 no agent is running, 4 permission denied; of exec: the command's.";

/// Watches what the kernel does to each pod and cgroup of this machine
#[derive(Debug, Parser)]
#[command(name = "nodewarden", version = version(), after_help = HELP, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Agent(agent::AgentArgs),
    Top(top::TopArgs),
    Events(events::EventsArgs),
    Tree(tree::TreeArgs),
    Status(status::StatusArgs),
    Pods(pods::PodsArgs),
    Devices(devices::DevicesArgs),
    Images(images::ImagesArgs),
    Gc(gc::GcArgs),
    Explain(explain::ExplainArgs),
    Simulate(simulate::SimulateArgs),
    Plan(plan::PlanArgs),
    Logs(logs::LogsArgs),
    Exec(exec::ExecArgs),
    Config(config::ConfigArgs),
}

/// How to reach the agent.
#[derive(Debug, Clone, Args)]
struct SocketArg {
    /// The agent's Unix socket
    #[arg(long, value_name = "PATH", default_value = defaults::SOCKET)]
    socket: PathBuf,
}

/// The version, with the commit if the build knows it.
pub fn version() -> &'static str {
    option_env!("NODEWARDEN_VERSION").unwrap_or(env!("CARGO_PKG_VERSION"))
}

/// Runs what the arguments say and gives the exit status.
pub fn main() -> ExitCode {
    nodewarden_model::set_version(version());
    let result = match Cli::parse().command {
        Command::Agent(args) => agent::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Logs(args) => client::block_on(logs::run(args)),
        Command::Exec(args) => client::block_on(exec::run(args)),
        Command::Top(args) => client::block_on(top::run(args)),
        Command::Events(args) => client::block_on(events::run(args)),
        Command::Tree(args) => client::block_on(tree::run(args)),
        Command::Status(args) => client::block_on(status::run(args)),
        Command::Pods(args) => client::block_on(pods::run(args)),
        Command::Devices(args) => client::block_on(devices::run(args)),
        Command::Images(args) => client::block_on(images::run(args)),
        Command::Gc(args) => client::block_on(gc::run(args)),
        Command::Explain(args) => client::block_on(explain::run(args)),
        Command::Simulate(args) => client::block_on(simulate::run(args)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read us has seen enough.
        Err(e) if e.is_broken_pipe() => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("nodewarden: {e}");
            ExitCode::from(e.exit_status())
        }
    }
}
