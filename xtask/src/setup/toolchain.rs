//! The compiler that builds the project: which version it is and where it lives.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use thiserror::Error;

use super::cargo_tool::{BPF_LINKER, LLVM_MAJOR};
use xtask_common::layout::Layout;
use xtask_common::process::{self, CommandError};

/// What `rustc` says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// Its release, such as `1.95.0`.
    pub release: String,
    /// The major version of its LLVM, whose library bpf-linker loads.
    pub llvm_major: u32,
    /// Where it is installed.
    pub sysroot: PathBuf,
}

/// The compiler can't be used.
#[derive(Debug, Error)]
pub enum ToolchainError {
    /// It can't be asked.
    #[error("cannot ask the compiler for its version; is rustup installed?")]
    Ask(#[from] CommandError),
    /// It does not say what it always said.
    #[error("`rustc -vV` does not say its {0}")]
    Unknown(&'static str),
    /// Its LLVM is not the one that bpf-linker can load.
    #[error(
        "rustc {release} is built on LLVM {llvm_major}, but {} loads the compiler's own LLVM and needs {}\n  \
         what to do: rustup toolchain install {TOOLCHAIN} && rustup override set {TOOLCHAIN}",
        BPF_LINKER.name,
        LLVM_MAJOR
    )]
    Llvm {
        /// The compiler's release.
        release: String,
        /// Its LLVM.
        llvm_major: u32,
    },
}

/// The compiler that the pinned aya crates and bpf-linker are made for.
const TOOLCHAIN: &str = "1.95.0";

impl Toolchain {
    /// Asks `rustc`.
    ///
    /// # Errors
    /// When it can't be asked, or its LLVM is not bpf-linker's.
    pub fn read(layout: &Layout) -> Result<Self, ToolchainError> {
        let rustc = env::var_os("RUSTC").unwrap_or_else(|| OsString::from("rustc"));
        let version = process::capture(layout.command(&rustc).arg("-vV"))?;
        let sysroot = process::capture(layout.command(&rustc).args(["--print", "sysroot"]))?;
        let (release, llvm_major) = parse(&version)?;
        if llvm_major != LLVM_MAJOR {
            return Err(ToolchainError::Llvm { release, llvm_major });
        }
        Ok(Self { release, llvm_major, sysroot: PathBuf::from(sysroot.trim_end()) })
    }
}

/// Release and LLVM major from the output of `rustc -vV`.
fn parse(version: &str) -> Result<(String, u32), ToolchainError> {
    let field = |name: &'static str| {
        let mut lines = version.lines().filter_map(|line| line.split_once(": "));
        lines
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.trim())
            .ok_or(ToolchainError::Unknown(name))
    };
    let llvm = field("LLVM version")?;
    let major = llvm.split('.').next().and_then(|major| major.parse().ok());
    Ok((field("release")?.to_owned(), major.ok_or(ToolchainError::Unknown("LLVM version"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read() {
        let text =
            "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nrelease: 1.95.0\nLLVM version: 22.1.2\n";
        assert_eq!(parse(text).unwrap(), ("1.95.0".to_owned(), 22));
        assert!(matches!(parse("release: 1.95.0\n"), Err(ToolchainError::Unknown("LLVM version"))));
        assert!(parse("release: 1.95.0\nLLVM version: new\n").is_err());
    }
}
