//! Chromium for the tests of the page, from Debian's packages with all that they need and the machine lacks,
//! unpacked into the target directory; none if the machine has one.

use std::env;

use super::StepError;
use xtask_common::debian::{Apt, Archive, Suite, newest};
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::progress::Progress;

/// The program and a font, without which a page has no text.
const PACKAGES: [&str; 2] = ["chromium", "fonts-dejavu-core"];

/// Whether it is installed or unpacked.
pub fn is_there(layout: &Layout) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join("chromium").is_file())
        || layout.chromium().join("usr/lib/chromium/chromium").is_file()
}

/// Downloads and unpacks it.
///
/// # Errors
/// When it can't be downloaded.
pub fn install(layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
    let archive = Archive::of_this_machine()?;
    let apt = Apt::at(layout, layout.tools().join("apt"))?;
    let suites = [Suite::Own, Suite::OwnSecurity];
    apt.update(&archive.source_lines(&suites), progress)?;
    let rows = apt.versions(&PACKAGES)?;
    let row = newest(&rows, PACKAGES[0]).ok_or_else(|| archive.no_package(PACKAGES[0], None, &suites))?;
    let debs = apt.download_missing(&PACKAGES, &row.suite, progress)?;
    let partial = layout.tools().join("chromium.partial");
    files::remove(&partial)?;
    apt.unpack(&debs, &partial, progress)?;
    files::remove(&layout.chromium())?;
    files::rename(&partial, &layout.chromium())?;
    if is_there(layout) { Ok(()) } else { Err(StepError::StillMissing(layout.chromium())) }
}
