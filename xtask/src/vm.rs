//! `cargo xtask vm`: builds what the guests run and hands over to `nodewarden-vm`.

use std::process::ExitCode;

use nodewarden_vm::{Args, Needs, VmError};
use xtask_common::layout::Layout;

use crate::build::{self, BuildError, Programs};
use crate::setup::{self, Purpose};

/// Runs the command line of `cargo xtask vm`.
///
/// # Errors
/// When the programs can't be built or no guest can be booted.
pub fn run(layout: &Layout, args: &Args) -> Result<ExitCode, VmError> {
    nodewarden_vm::run(layout, args, &|needs| {
        if needs == Needs::Cluster {
            setup::ensure(layout, Purpose::Cluster)?;
        }
        Ok(build(layout, if needs == Needs::Bench { Programs::Measured } else { Programs::Tested })?)
    })
}

/// Builds `programs` for guests.
///
/// # Errors
/// When something for it can't be installed, or cargo fails.
pub fn build(layout: &Layout, programs: Programs) -> Result<(), BuildError> {
    setup::ensure(layout, Purpose::Build)?;
    build::kernel_programs(layout, true)?;
    build::host_programs(layout, programs, false)
}
