//! rpm, for the tests of the RPM package: Debian's packages, unpacked into the target directory with those of
//! their libraries that the machine does not have.

use super::StepError;
use xtask_common::debian::{Apt, Archive, Suite, newest};
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::progress::Progress;

const PACKAGE: &str = "rpm";

/// Whether it is there.
pub fn is_there(layout: &Layout) -> bool {
    layout.rpm().join("usr/bin/rpm").exists()
}

/// Downloads what is missing of the machine's own Debian and unpacks it.
///
/// # Errors
/// When it can't be downloaded.
pub fn install(layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
    let archive = Archive::of_this_machine()?;
    let apt = Apt::at(layout, layout.tools().join("apt"))?;
    let suites = [Suite::Own, Suite::OwnSecurity];
    apt.update(&archive.source_lines(&suites), progress)?;
    let rows = apt.versions(&[PACKAGE])?;
    let row = newest(&rows, PACKAGE).ok_or_else(|| archive.no_package(PACKAGE, None, &suites))?;
    let debs = apt.download_missing(&[PACKAGE], &row.suite, progress)?;
    let partial = layout.tools().join("rpm.partial");
    files::remove(&partial)?;
    apt.unpack(&debs, &partial, progress)?;
    files::remove(&layout.rpm())?;
    files::rename(&partial, &layout.rpm())?;
    if is_there(layout) { Ok(()) } else { Err(StepError::StillMissing(layout.rpm())) }
}
