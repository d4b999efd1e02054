//! Programs that `cargo install` compiles from crates.io, each in one version.

use std::path::PathBuf;

use super::StepError;
use xtask_common::files;
use xtask_common::layout::Layout;
use xtask_common::process;
use xtask_common::progress::Progress;

/// A program of crates.io.
#[derive(Debug)]
pub struct CargoTool {
    /// The crate, and its program.
    pub package: &'static str,
    /// The version that is installed.
    pub version: &'static str,
    /// How the step is called, and what the program prints as its version.
    pub name: &'static str,
    /// More options of `cargo install`.
    pub options: &'static [&'static str],
}

/// Links the kernel programs with the compiler's own LLVM. Later versions need a system LLVM; this one loads
/// the compiler's.
pub const BPF_LINKER: CargoTool =
    CargoTool { package: "bpf-linker", version: "0.10.3", name: "bpf-linker 0.10.3", options: &[] };
/// The LLVM that the default features of [`BPF_LINKER`] load.
pub const LLVM_MAJOR: u32 = 22;
/// Builds the fuzz targets with libFuzzer and the sanitizer. Only `cargo xtask fuzz` needs it.
pub const CARGO_FUZZ: CargoTool =
    CargoTool { package: "cargo-fuzz", version: "0.13.2", name: "cargo-fuzz 0.13.2", options: &[] };
/// Compares the dependencies with `deny.toml`.
pub const CARGO_DENY: CargoTool =
    CargoTool { package: "cargo-deny", version: "0.20.2", name: "cargo-deny 0.20.2", options: &[] };
/// Makes the book of the documents. Only `cargo xtask book` needs it. Without its server and its search,
/// which have most of its dependencies.
pub const MDBOOK: CargoTool = CargoTool {
    package: "mdbook",
    version: "0.5.4",
    name: "mdbook v0.5.4",
    options: &["--no-default-features"],
};

impl CargoTool {
    /// Where it is when it is installed.
    pub fn program(&self, layout: &Layout) -> PathBuf {
        layout.tool(self.package)
    }

    /// Whether the right version runs.
    pub fn is_there(&self, layout: &Layout) -> bool {
        let program = self.program(layout);
        // Asked only when it exists, so that nothing else of that name is.
        program.exists()
            && process::capture(layout.command(&program).arg("--version"))
                .is_ok_and(|version| version.trim() == self.name)
    }

    /// Compiles it. `cargo install` puts the program in place with a rename; what is compiled so far stays in
    /// the tools folder, so an interrupted installation continues where it stopped.
    ///
    /// # Errors
    /// When cargo fails, or the program is not there afterwards.
    pub fn install(&self, layout: &Layout, progress: &mut Progress) -> Result<(), StepError> {
        let build = layout.tools().join(format!("{}-build", self.package));
        let mut command = layout.cargo();
        // Unoptimised they are fast enough, and compile in a third of the time.
        command.args(["install", self.package, "--version", self.version]).args(self.options);
        command.args(["--locked", "--force", "--debug", "--root"]).arg(layout.tools());
        command.arg("--target-dir").arg(&build);
        process::follow(&mut command, |line| progress.tick(line))?;
        if !self.is_there(layout) {
            return Err(StepError::StillMissing(self.program(layout)));
        }
        Ok(files::remove(&build)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_has_the_version() {
        for tool in [BPF_LINKER, CARGO_FUZZ, CARGO_DENY] {
            assert_eq!(tool.name, format!("{} {}", tool.package, tool.version));
        }
        assert_eq!(MDBOOK.name, format!("{} v{}", MDBOOK.package, MDBOOK.version));
    }
}
