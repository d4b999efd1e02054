//! The node in a real Kubernetes cluster: tests of `nodewarden-e2e` that share one control plane.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use super::clock::Clock;
use super::{TestError, e2e};
use crate::build::{self, Programs};
use crate::setup::kubernetes::Set;
use crate::setup::{self, Purpose};
use xtask_common::layout::{self, Layout, Profile};
use xtask_common::process::{self, CommandError};
use xtask_common::tally::Tally;

/// The names of these tests begin so.
const PREFIX: &str = "cluster_";
/// Tests at a time of those that do not disturb each other. They wait more than they work: for the control
/// plane, for pods that end with grace, for certificates that run out.
const JOBS: usize = 4;
/// The same with tests outside a cluster among them: with six, two CPUs were measured to be 63 % busy, with
/// eight 93 %.
const JOBS_OF_BOTH: usize = 8;
/// What the tests read: the directory of the control plane, and what the node is.
const SHARED_VARIABLE: &str = "NODEWARDEN_CLUSTER";
/// See [`SHARED_VARIABLE`].
pub const NODE_VARIABLE: &str = "NODEWARDEN_NODE";

/// Builds all, starts a control plane and runs the tests; with `kubelet` against the real kubelet.
///
/// # Errors
/// When something can't be built or started.
pub fn run(
    layout: &Layout,
    filter: Option<&str>,
    quick: bool,
    kubelet: bool,
    clock: &mut Clock,
    tally: &mut Tally,
) -> Result<(), TestError> {
    if !layout::is_root() {
        tally.skip("tests in a cluster", "they run containers, which needs root");
        return Ok(());
    }
    setup::ensure(layout, if kubelet { Purpose::Conformance } else { Purpose::Cluster })?;
    clock.ended("setup");
    build::kernel_programs(layout, true)?;
    build::host_programs(layout, Programs::tested(quick), false)?;
    clock.ended("programs");
    let arguments = [filter.unwrap_or(PREFIX)];
    // A kubelet uses fixed paths of the machine.
    let jobs = if kubelet { 1 } else { JOBS };
    let node = kubelet.then_some("kubelet");
    with_control_plane(layout, &arguments, jobs, node, filter.is_some(), tally)?;
    clock.ended("tests in a cluster");
    Ok(())
}

/// The end-to-end tests that [`e2e::run`] leaves: those in a cluster, and those of which several run at a
/// time. What they need is built already.
///
/// # Errors
/// When something can't be started.
pub fn run_second_part(layout: &Layout, clock: &mut Clock, tally: &mut Tally) -> Result<(), TestError> {
    let arguments = ["--part", "second", "--second-attempts", e2e::SECOND_ATTEMPTS];
    with_control_plane(layout, &arguments, JOBS_OF_BOTH, None, false, tally)?;
    clock.ended("end-to-end tests beside each other and in a cluster");
    Ok(())
}

/// Runs tests that share a control plane, so many at a time. `node` is what runs the pods, unless it is
/// nodewarden.
fn with_control_plane(
    layout: &Layout,
    arguments: &[&str],
    jobs: usize,
    node: Option<&str>,
    filtered: bool,
    tally: &mut Tally,
) -> Result<(), TestError> {
    let folder = layout.target.join("cluster");
    // Where it could not be built, each test is skipped with the reason.
    let shared = Set::ControlPlane.is_there(layout);
    let shared = shared.then(|| ControlPlane::start(layout, &folder)).transpose()?;
    let mut command = e2e::command(layout);
    command.args(arguments).args(["--jobs", &jobs.to_string()]);
    if shared.is_some() {
        command.env(SHARED_VARIABLE, &folder);
    }
    if let Some(node) = node {
        command.env(NODE_VARIABLE, node);
    }
    e2e::count(&mut command, filtered, tally)
}

/// The program `nodewarden-stage cluster`, which ends its control plane when it is ended.
struct ControlPlane(Child);

impl ControlPlane {
    fn start(layout: &Layout, folder: &Path) -> Result<Self, TestError> {
        let mut command = layout.command(layout.program(Profile::Dev, "nodewarden-stage"));
        command.arg("cluster").arg("--directory").arg(folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let line = process::line(&command);
        let start = |source| CommandError::Start { command: line.clone(), source };
        let mut this = Self(command.spawn().map_err(start)?);
        let output = this.0.stdout.take().map(BufReader::new);
        let ready = output.into_iter().flat_map(BufRead::lines).map_while(Result::ok).any(|l| l == "ready");
        if ready {
            return Ok(this);
        }
        let status = this.0.wait().map_err(|source| CommandError::Watch { command: line.clone(), source })?;
        Err(CommandError::Failed { command: line, status, tail: String::new() }.into())
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        // By the shell, since std can only kill outright, which would leave the parts to the kernel.
        let _ended = std::process::Command::new("kill").arg(self.0.id().to_string()).status();
        let _ended = self.0.wait();
    }
}
