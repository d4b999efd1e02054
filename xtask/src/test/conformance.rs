//! Kubernetes' own tests of a node, by `nodewarden-stage conformance`.

use super::clock::Clock;
use super::{TestError, cluster};
use crate::build::{self, Programs};
use crate::setup::{self, Purpose};
use xtask_common::layout::{self, Layout, Profile};
use xtask_common::process;
use xtask_common::tally::Tally;

/// The tests that a node has to pass.
const FOCUS: &str = r"\[NodeConformance\]";

/// What is run.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// A regular expression over the names of tests; [`FOCUS`] if `None`.
    pub focus: Option<&'a str>,
    /// The real kubelet in place of nodewarden.
    pub kubelet: bool,
    /// How many tests run at a time.
    pub jobs: usize,
    /// Leave out tests that match this.
    pub skip: Option<&'a str>,
    /// Only write the table of earlier results.
    pub table: bool,
}

/// Builds all and runs the suite, or writes the table.
///
/// # Errors
/// When something can't be built or started.
pub fn run(layout: &Layout, run: &Run<'_>, clock: &mut Clock, tally: &mut Tally) -> Result<(), TestError> {
    if !layout::is_root() {
        tally.skip("Kubernetes' tests of a node", "they run containers, which needs root");
        return Ok(());
    }
    if !run.table {
        setup::ensure(layout, Purpose::Conformance)?;
        clock.ended("setup");
        build::kernel_programs(layout, true)?;
    }
    build::host_programs(layout, Programs::Measured, false)?;
    clock.ended("programs");
    let mut command = layout.command(layout.program(Profile::Release, "nodewarden-stage"));
    command.arg("--agent").arg(layout.program(Profile::Release, "nodewarden")).arg("conformance");
    command.arg("--directory").arg(layout.target.join("conformance"));
    command.env("PATH", layout.path_with_tools());
    if run.table {
        command.arg("--write-table").arg(layout.root.join("docs/CONFORMANCE.md"));
        process::show(&mut command)?;
        tally.pass();
        return Ok(());
    }
    command.arg(run.focus.unwrap_or(FOCUS)).args(["--jobs", &run.jobs.to_string()]);
    command.args(run.skip.iter().flat_map(|skip| ["--skip", skip]));
    if run.kubelet {
        command.arg("--kubelet").env(cluster::NODE_VARIABLE, "kubelet");
    }
    let mut ours = Tally::default();
    let status = process::each_output_line(&mut command, |line| {
        println!("{line}");
        ours.line(line);
    })?;
    if ours.endings == 0 || (!status.success() && ours.counts.failed == 0) {
        ours.fail(format!("Kubernetes' tests of a node, which did not come to their end ({status})"));
    }
    tally.add(ours);
    clock.ended("Kubernetes' tests of a node");
    Ok(())
}
