//! A real Prometheus and promtool for the tests, from Debian's package, unpacked into the target directory.
//!
//! Unpacked and not installed: installing it would start a server on this machine.

use super::StepError;
use xtask_common::debian::{Archive, Package, Suite};
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::progress::Progress;

/// Whether both programs are there; the folder appears by a rename when it is whole.
pub fn is_there(layout: &Layout) -> bool {
    let programs = layout.prometheus().join("usr/bin");
    programs.join("prometheus").exists() && programs.join("promtool").exists()
}

/// Downloads and unpacks the version of the machine's own Debian.
///
/// # Errors
/// When it can't be downloaded.
pub fn install(layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
    let archive = Archive::of_this_machine()?;
    let package = Package { name: "prometheus".to_owned(), version: None };
    let partial = layout.tools().join("prometheus.partial");
    archive.unpack(layout, &package, &[Suite::Own], &partial, progress)?;
    files::remove(&layout.prometheus())?;
    files::rename(&partial, &layout.prometheus())?;
    if is_there(layout) { Ok(()) } else { Err(StepError::StillMissing(layout.prometheus())) }
}
