//! axe-core, which finds what keeps people from using a page, for the tests of the agent's page: npm's
//! package, unpacked into the target directory. Its licence (MPL-2.0) is none of those that we ship, so it is
//! no part of the repository.

use super::StepError;
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::process;
use xtask_common::progress::Progress;

/// The package, in the version that is known to work, and the archive that npm makes of it.
const PACKAGE: &str = "axe-core@4.14.1";
const ARCHIVE: &str = "axe-core-4.14.1.tgz";

/// Whether it is there.
pub fn is_there(layout: &Layout) -> bool {
    layout.axe().join("axe.min.js").is_file()
}

/// Downloads it.
///
/// # Errors
/// When there is no npm, or it can't be downloaded.
pub fn install(layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
    let partial = layout.tools().join("axe-core.partial");
    files::remove(&partial)?;
    files::create_folder(&partial)?;
    let mut npm = layout.command("npm");
    npm.args(["pack", "--silent", "--pack-destination"]).arg(&partial).arg(PACKAGE).current_dir(&partial);
    process::follow(&mut npm, |line| progress.tick(line))?;
    let mut tar = layout.command("tar");
    tar.args(["-xzf", ARCHIVE, "--strip-components=1"]).current_dir(&partial);
    process::follow(&mut tar, |line| progress.tick(line))?;
    files::remove(&layout.axe())?;
    files::rename(&partial, &layout.axe())?;
    if is_there(layout) { Ok(()) } else { Err(StepError::StillMissing(layout.axe())) }
}
