//! Kubernetes' own tests of a node (`test/e2e_node` of 1.20.2) against nodewarden or the real kubelet: a
//! control plane, a container runtime with the suite's images made on the spot, one node, and the suite.

mod images;
mod junit;
mod node;
mod results;
mod run;
mod table;
mod turns;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub use run::ConformanceError;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory for all files; the results of earlier runs are kept in it
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// Run the real kubelet in place of nodewarden
    #[arg(long)]
    kubelet: bool,
    /// Leave out tests that match this regular expression
    #[arg(long, value_name = "REGEX")]
    skip: Option<String>,
    /// How many tests run at a time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Run nothing; write the table of earlier results to this file
    #[arg(long, value_name = "FILE", conflicts_with = "focus")]
    write_table: Option<PathBuf>,
    /// Run the tests that match this regular expression
    #[arg(value_name = "FOCUS", default_value = r"\[NodeConformance\]")]
    focus: String,
}

/// Runs the suite and prints each test's outcome, or writes the table.
///
/// # Errors
/// Something cannot be started, or a file cannot be read or written.
pub fn main(agent: &Path, args: &Args) -> Result<ExitCode, ConformanceError> {
    if let Some(path) = &args.write_table {
        return table::write(&args.directory, path).map(|()| ExitCode::SUCCESS);
    }
    run::run(agent, args)
}
