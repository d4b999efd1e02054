//! The command line: one module per subcommand. Pure functions build the texts; the calls to the agent and
//! the printing are separate.

mod agent;
mod arguments;
mod bundle;
mod client;
mod completions;
mod config;
mod cpus;
mod decision;
mod devices;
#[cfg(test)]
mod documents;
mod error;
mod event_line;
mod events;
mod exec;
mod explain;
mod format;
mod gc;
mod images;
mod logging;
mod logs;
mod measure;
mod neighbours;
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
mod undo;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};

pub(crate) use error::CliError;
use nodewarden_config::defaults;

const HELP: &str = "\
Examples:
  nodewarden agent --config /etc/nodewarden/config.yaml   start the agent (as root)
  nodewarden top                                          resource usage of pods and services, live
  nodewarden events --since 10m --type oom                out-of-memory kills of the last ten minutes, then follow
  nodewarden tree /kubepods                               limits and usage, level by level
  nodewarden status                                       what works here, what is off and why
  nodewarden logs -f shop/cart                            the output of a container
  nodewarden exec -it shop/cart -- sh                     a shell in a container
  nodewarden pods                                         the pods that the agent runs
  nodewarden pods describe shop/cart                      details of one pod, with its events
  nodewarden cpus                                         CPUs and NUMA nodes, and the containers that have them for themselves
  nodewarden devices                                      devices of plugins, and the containers that use them
  nodewarden images                                       the images, and why each is kept or would be removed
  nodewarden gc --dry-run                                 what a collection would remove now
  nodewarden explain shop/cart                            why a pod was evicted, or why it waits
  nodewarden simulate --signal memory.available=4Gi       which pods would be evicted below this threshold
  nodewarden plan pod.yaml                                the cgroups and limits a manifest leads to
  nodewarden undo                                         put back what a killed agent in mode augment has written
  nodewarden bundle                                       everything that a report of a problem needs, in one archive

Exit status: 0 success, 1 failure, 2 wrong arguments, 3 no agent is running, 4 permission denied; exec returns the
exit status of its command.";

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
    Cpus(cpus::CpusArgs),
    Devices(devices::DevicesArgs),
    Images(images::ImagesArgs),
    Gc(gc::GcArgs),
    Explain(explain::ExplainArgs),
    Simulate(simulate::SimulateArgs),
    Plan(plan::PlanArgs),
    Logs(logs::LogsArgs),
    Exec(exec::ExecArgs),
    Config(config::ConfigArgs),
    Undo(undo::UndoArgs),
    Bundle(bundle::BundleArgs),
    Completions(completions::CompletionsArgs),
    #[command(hide = true)]
    Manual(completions::ManualArgs),
}

/// How to reach the agent.
#[derive(Debug, Clone, Args)]
struct SocketArg {
    /// The agent's Unix socket
    #[arg(long, value_name = "PATH", default_value = defaults::SOCKET)]
    socket: PathBuf,
}

/// The version, with the commit if it was known at build time.
pub fn version() -> &'static str {
    option_env!("NODEWARDEN_VERSION").unwrap_or(env!("CARGO_PKG_VERSION"))
}

/// Runs the subcommand that the arguments name and returns its exit status.
pub fn main() -> ExitCode {
    nodewarden_model::set_version(version());
    let arguments = arguments::arguments(std::env::args_os());
    if arguments::asks_kubelet_version(&arguments) {
        println!("Kubernetes {}", nodewarden_kube::node::KUBELET_VERSION);
        return ExitCode::SUCCESS;
    }
    let result = match Cli::parse_from(arguments).command {
        Command::Agent(args) => agent::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Undo(args) => undo::run(&args),
        Command::Completions(args) => completions::completions(&args, Cli::command()),
        Command::Manual(args) => completions::manual(&args, Cli::command()),
        Command::Bundle(args) => bundle::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Logs(args) => client::block_on(logs::run(args)),
        Command::Exec(args) => client::block_on(exec::run(args)),
        Command::Top(args) => client::block_on(top::run(args)),
        Command::Events(args) => client::block_on(events::run(args)),
        Command::Tree(args) => client::block_on(tree::run(args)),
        Command::Status(args) => client::block_on(status::run(args)),
        Command::Pods(args) => client::block_on(pods::run(args)),
        Command::Cpus(args) => client::block_on(cpus::run(args)),
        Command::Devices(args) => client::block_on(devices::run(args)),
        Command::Images(args) => client::block_on(images::run(args)),
        Command::Gc(args) => client::block_on(gc::run(args)),
        Command::Explain(args) => client::block_on(explain::run(args)),
        Command::Simulate(args) => client::block_on(simulate::run(args)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output closed the pipe: that is not an error.
        Err(e) if e.is_broken_pipe() => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("nodewarden: {e}");
            ExitCode::from(e.exit_status())
        }
    }
}
