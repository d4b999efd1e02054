//! `cargo xtask build`: the kernel programs, then the agent that carries them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

use crate::kernel_object::without_debug_information;
use crate::setup::{self, Purpose, SetupError};
use xtask_common::layout::{Layout, Profile};
use xtask_common::process::{self, CommandError};

/// The kernel programs, below their target directory.
pub const KERNEL_OBJECT: &str = "bpfel-unknown-none/bpf/nodewarden-ebpf";

/// Arguments of `cargo xtask build`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// One optimised, self-contained binary: target/release/nodewarden
    #[arg(long)]
    release: bool,
    /// Print nothing but warnings and errors
    #[arg(long, short)]
    quiet: bool,
}

/// Which programs are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Programs {
    /// The agent.
    Agent(Profile),
    /// The agent and what tests and runs it, as quickly as they are compiled.
    Quick,
    /// The same with an optimised agent, which shares its dependencies with the unit tests. Tests wait for
    /// the agent most of the time, so their own code is not optimised.
    Tested,
    /// The agent and what measures it, all optimised so that the tests take nothing from the figures.
    Measured,
}

impl Programs {
    /// [`Self::Quick`] or [`Self::Tested`].
    pub fn tested(quick: bool) -> Self {
        if quick { Self::Quick } else { Self::Tested }
    }

    /// How they are built.
    fn profile(self) -> Profile {
        match self {
            Self::Agent(profile) => profile,
            Self::Quick | Self::Tested => Profile::Dev,
            Self::Measured => Profile::Release,
        }
    }

    /// The packages of the workspace.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Agent(_) => &["nodewarden"],
            Self::Quick | Self::Tested | Self::Measured => &["nodewarden", "nodewarden-tests"],
        }
    }
}

/// Cargo's options for [`Programs::Tested`].
const TESTED: [&str; 6] = [
    "--features",
    "nodewarden-tests/as-unit-tests",
    "--config",
    "profile.dev.opt-level=1",
    "--config",
    "profile.dev.package.nodewarden-tests.opt-level=0",
];

/// The build failed.
#[derive(Debug, Error)]
pub enum BuildError {
    /// Something it needs could not be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// cargo failed, and has shown why.
    #[error(transparent)]
    Cargo(#[from] CommandError),
    /// The kernel programs could not be put where the agent's build looks for them.
    #[error("cannot copy the kernel programs to {}", path.display())]
    Object {
        /// The copy.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// `cargo xtask build`.
///
/// # Errors
/// When setup or cargo fails.
pub fn run(layout: &Layout, args: &Args) -> Result<(), BuildError> {
    setup::ensure(layout, Purpose::Build)?;
    let profile = Profile::of(args.release);
    kernel_programs(layout, args.quiet)?;
    host_programs(layout, Programs::Agent(profile), args.quiet)?;
    if !args.quiet {
        eprintln!("built {}", layout.short(&layout.program(profile, "nodewarden")).display());
    }
    Ok(())
}

/// Builds the kernel programs and leaves them at [`Layout::ebpf_object`].
///
/// # Errors
/// When cargo fails or the object can't be copied.
pub fn kernel_programs(layout: &Layout, quiet: bool) -> Result<(), BuildError> {
    let mut cargo = kernel_cargo(layout, "build");
    say_less(&mut cargo, quiet);
    process::show(&mut cargo)?;
    carry(&layout.ebpf_target().join(KERNEL_OBJECT), &layout.ebpf_object())
}

/// Writes to `object` what the agent carries of the kernel programs that were built.
///
/// # Errors
/// When what was built is no ELF file or can't be copied.
pub fn carry(built: &Path, object: &Path) -> Result<(), BuildError> {
    let fail = |source| BuildError::Object { path: object.to_owned(), source };
    let file = fs::read(built).map_err(fail)?;
    let small = without_debug_information(&file).map_err(|error| fail(io::Error::other(error)))?;
    write_if_changed(&small, object).map_err(fail)
}

/// `cargo SUBCOMMAND` for the kernel programs and their target.
pub fn kernel_cargo(layout: &Layout, subcommand: &str) -> Command {
    kernel_cargo_with(layout, subcommand, &layout.ebpf_target(), &[])
}

/// The same with a target directory of its own and with `more` flags for the compiler.
pub fn kernel_cargo_with(layout: &Layout, subcommand: &str, target: &Path, more: &[String]) -> Command {
    let mut cargo = layout.cargo();
    cargo
        .args([subcommand, "--package", "nodewarden-ebpf", "--profile", "bpf"])
        .args(["--target", "bpfel-unknown-none", "-Z", "build-std=core", "--target-dir"])
        .arg(target)
        // build-std is unstable; this lets the stable compiler do it, for this call alone.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", kernel_flags(&layout.tool("bpf-linker"), more));
    cargo
}

/// Builds `programs`, all with one call so that cargo shares what it can.
///
/// # Errors
/// When cargo fails.
pub fn host_programs(layout: &Layout, programs: Programs, quiet: bool) -> Result<(), BuildError> {
    let mut cargo = layout.cargo();
    cargo.args(["build", "--bins"]);
    for package in programs.packages() {
        cargo.args(["--package", package]);
    }
    if programs.profile() == Profile::Release {
        cargo.arg("--release");
    }
    if programs == Programs::Tested {
        cargo.args(TESTED);
    }
    say_less(&mut cargo, quiet);
    Ok(process::show(&mut cargo)?)
}

/// Debug information becomes BTF, which the kernel needs for maps and for the verifier's messages.
fn kernel_flags(linker: &Path, more: &[String]) -> String {
    let linker = format!("-Clinker={}", linker.display());
    let own = ["-Cdebuginfo=2", "-Clink-arg=--btf", &linker];
    encoded(own.into_iter().chain(more.iter().map(String::as_str)))
}

/// Flags as CARGO_ENCODED_RUSTFLAGS has them, so that a path may have spaces.
pub fn encoded<'a>(flags: impl Iterator<Item = &'a str>) -> String {
    flags.collect::<Vec<_>>().join("\x1f")
}

fn say_less(cargo: &mut Command, quiet: bool) {
    if quiet {
        cargo.arg("--quiet");
    }
}

/// Leaves an equal file alone, so that its time stamp does not make cargo build the agent again.
fn write_if_changed(new: &[u8], to: &Path) -> io::Result<()> {
    if fs::read(to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    let partial = to.with_extension("partial");
    fs::write(&partial, new)?;
    fs::rename(partial, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_equal_object_keeps_its_time_stamp() {
        let temp = tempfile::tempdir().unwrap();
        let to = temp.path().join("b.o");
        write_if_changed(b"one", &to).unwrap();
        let before = fs::metadata(&to).unwrap().modified().unwrap();
        write_if_changed(b"one", &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), before);
        write_if_changed(b"two", &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "two");
    }

    #[test]
    fn flags_survive_a_path_with_spaces() {
        let flags = kernel_flags(Path::new("/my work/bpf-linker"), &[]);
        assert_eq!(flags.split('\x1f').next_back(), Some("-Clinker=/my work/bpf-linker"));
    }
}
