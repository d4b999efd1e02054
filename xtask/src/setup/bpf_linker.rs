//! bpf-linker: links the kernel programs with the compiler's own LLVM.

use super::StepError;
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::process;
use xtask_common::progress::Progress;

/// Later versions need a system LLVM; this one loads the compiler's.
const VERSION: &str = "0.10.3";
/// What [`VERSION`] prints as its version, and how the step is called.
pub const NAME: &str = "bpf-linker 0.10.3";
/// The LLVM that the default features of [`VERSION`] load.
pub const LLVM_MAJOR: u32 = 22;

/// Whether the right version runs.
pub fn is_there(layout: &Layout) -> bool {
    let linker = layout.bpf_linker();
    // Asked only when it exists, so that nothing else of that name is.
    linker.exists()
        && process::capture(layout.command(&linker).arg("--version")).is_ok_and(|v| v.trim() == NAME)
}

/// Compiles it. `cargo install` puts the program in place with a rename; what is compiled so far stays in the
/// tools folder, so an interrupted installation continues where it stopped.
///
/// # Errors
/// When cargo fails.
pub fn install(layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
    let build = layout.tools().join("bpf-linker-build");
    let mut command = layout.cargo();
    // LLVM does its work: unoptimised it links in the same time and compiles in a third of the time.
    command.args(["install", "bpf-linker", "--version", VERSION, "--locked", "--force", "--debug", "--root"]);
    command.arg(layout.tools()).arg("--target-dir").arg(&build);
    process::follow(&mut command, |line| progress.tick(line))?;
    if !is_there(layout) {
        return Err(StepError::StillMissing(layout.bpf_linker()));
    }
    Ok(files::remove(&build)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_has_the_version() {
        assert_eq!(NAME, format!("bpf-linker {VERSION}"));
    }
}
