//! cargo-fuzz: builds the fuzz targets with libFuzzer and the sanitizer. Only `cargo xtask fuzz` needs it.

use super::StepError;
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::process;
use xtask_common::progress::Progress;

const VERSION: &str = "0.13.2";
/// What [`VERSION`] prints as its version, and how the step is called.
pub const NAME: &str = "cargo-fuzz 0.13.2";

/// Whether the right version runs.
pub fn is_there(layout: &Layout) -> bool {
    let program = layout.cargo_fuzz();
    program.exists()
        && process::capture(layout.command(&program).arg("--version")).is_ok_and(|v| v.trim() == NAME)
}

/// Compiles it. What is compiled so far stays in the tools folder, so an interrupted installation continues where it
/// stopped.
///
/// # Errors
/// When cargo fails.
pub fn install(layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
    let build = layout.tools().join("cargo-fuzz-build");
    let mut command = layout.cargo();
    command.args(["install", "cargo-fuzz", "--version", VERSION, "--locked", "--force", "--debug", "--root"]);
    command.arg(layout.tools()).arg("--target-dir").arg(&build);
    process::follow(&mut command, |line| progress.tick(line))?;
    if !is_there(layout) {
        return Err(StepError::StillMissing(layout.cargo_fuzz()));
    }
    Ok(files::remove(&build)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_has_the_version() {
        assert_eq!(NAME, format!("cargo-fuzz {VERSION}"));
    }
}
