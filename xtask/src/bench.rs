//! `cargo xtask bench`: measures the release build on this machine.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use thiserror::Error;

use crate::build::{self, BuildError, Programs};
use crate::setup::{self, Purpose, SetupError};
use xtask_common::layout::{Layout, Profile};

/// Arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A bench by its name, `all`, or `list` to see the names
    #[arg(default_value = "list")]
    name: String,
    /// One JSON object a figure, and nothing else on standard output
    #[arg(long)]
    json: bool,
    /// Passed on to the bench, such as `-- --agent FILE` for another binary than the one built here
    #[arg(last = true)]
    args: Vec<String>,
}

/// The bench could not be run.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Something it needs could not be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// It could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The bench program could not be started.
    #[error("cannot start {}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// `cargo xtask bench`: becomes the bench program, so that its output and exit status are passed on as they
/// are.
///
/// # Errors
/// When it can't be built or started.
pub fn run(layout: &Layout, args: &Args) -> Result<(), BenchError> {
    setup::ensure(layout, Purpose::Bench)?;
    if ["augment", "augment-events", "augment-cost", "node", "all"].contains(&args.name.as_str()) {
        // A control plane and the real kubelet.
        setup::ensure(layout, Purpose::Conformance)?;
    }
    build::kernel_programs(layout, true)?;
    build::host_programs(layout, Programs::Measured, args.json)?;
    let bench = layout.program(Profile::Release, "nodewarden-bench");
    let mut command = layout.command(&bench);
    command.arg(&args.name);
    if args.json {
        command.arg("--json");
    }
    if !args.args.iter().any(|own| own == "--agent" || own.starts_with("--agent=")) {
        command.arg("--agent").arg(layout.program(Profile::Release, "nodewarden"));
    }
    command.args(&args.args);
    command.env("PATH", layout.path_with_tools());
    Err(BenchError::Start { path: bench, source: command.exec() })
}
