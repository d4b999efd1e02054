//! The agent on other kernels, in virtual machines.

use super::TestError;
use super::clock::Clock;
use crate::vm;
use xtask_common::layout::Layout;
use xtask_common::tally::Tally;

/// Builds the programs for the guests, runs the end-to-end tests in every one, and tests the harness itself. A
/// machine that can't boot them has them counted as skipped.
///
/// # Errors
/// When the programs can't be built, or guests not be booted for a fault of ours.
pub fn run(
    layout: &Layout,
    filter: Option<&str>,
    clock: &mut Clock,
    tally: &mut Tally,
) -> Result<(), TestError> {
    vm::build(layout)?;
    clock.ended("programs of the virtual machines");
    println!("running the end-to-end tests in virtual machines");
    tally.add(nodewarden_vm::everything(layout, filter, clock.left())?);
    Ok(())
}
