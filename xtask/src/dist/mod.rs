//! `cargo xtask dist`: the shipped binary, packages, an image, and what tells how they were made.

mod compile;
mod made;
mod source;
mod symbols;

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::build::BuildError;
use crate::setup::{self, Purpose, SetupError};
use made::Made;
use nodewarden_dist::DistError;
use nodewarden_dist::generated::GenerateError;
use xtask_common::files::{self, FileError};
use xtask_common::layout::Layout;
use xtask_common::process::CommandError;
use xtask_common::progress::Progress;

/// How many steps are counted.
const STEPS: usize = 5;

/// Arguments of `cargo xtask dist`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Leaves in target/dist/VERSION: archives of the binary and of its debug symbols, a .deb, an .rpm, \
    an OCI image, a Helm chart, a bill of materials (CycloneDX), the provenance (in-toto, SLSA), and SHA256SUMS. The same \
    commit makes the same files, of the same base packages. The binary runs with Debian 11's C library and newer ones."
)]
pub struct Args {
    /// Where to put the files [default: target/dist/VERSION]
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Take this binary, with its debug information, in place of compiling one
    #[arg(long, value_name = "FILE", conflicts_with = "rebuild")]
    binary: Option<PathBuf>,
    /// Make all files twice of one binary, and fail if they differ
    #[arg(long)]
    check: bool,
    /// Compile the binary twice too, the second time in a fresh clone elsewhere, and fail if anything differs
    #[arg(long)]
    rebuild: bool,
}

/// The files could not be made.
#[derive(Debug, Error)]
pub enum DistRunError {
    /// Something it needs could not be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The kernel programs can't be carried.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A program failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A package could not be made.
    #[error(transparent)]
    Dist(#[from] DistError),
    /// The binary did not write its completions or manual.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// What git says is not understood.
    #[error("git says {0:?}, which is no time")]
    Time(String),
    /// What was compiled may be neither what was there at the start nor what is there now.
    #[error("the source was changed while it was compiled: it was {before} and is {now}; begin again")]
    Changed {
        /// Its version at the start.
        before: String,
        /// Its version at the end.
        now: String,
    },
    /// The second time other files were made.
    #[error("not reproducible: {} differ", .0.join(", "))]
    Differ(Vec<String>),
}

/// `cargo xtask dist`.
///
/// # Errors
/// When something can't be built, made or written, or is not the same twice.
pub fn run(layout: &Layout, args: &Args) -> Result<(), DistRunError> {
    setup::ensure(layout, Purpose::Dist)?;
    let release = source::release(layout)?;
    if release.dirty {
        eprintln!("dist: files differ from the commit: the versions end with .dirty");
    }
    let binary = match &args.binary {
        Some(file) => files::read(file)?,
        None => {
            let binary = compile::binary(layout, &release)?;
            let now = source::release(layout)?;
            if now != release {
                let (before, now) = (release.package_version()?, now.package_version()?);
                return Err(DistRunError::Changed { before, now });
            }
            binary
        }
    };
    let made = Made::of(layout, &release, &binary)?;
    let folder = match &args.output {
        Some(folder) => folder.clone(),
        None => layout.dist().join(release.package_version()?),
    };
    write(&folder, &made)?;
    for (name, data) in &made.files {
        eprintln!("{:>9} KiB  {}", data.len().div_ceil(1024), layout.short(&folder.join(name)).display());
    }
    if args.check {
        compare(&made, &Made::of(layout, &release, &binary)?, "packed twice")?;
    }
    if args.rebuild {
        let clone = source::clone(layout)?;
        let again = compile::binary(&clone, &release)?;
        compare(&made, &Made::of(&clone, &release, &again)?, "compiled and packed twice")?;
        files::remove(&clone.root)?;
    }
    Ok(())
}

fn compare(first: &Made, second: &Made, how: &str) -> Result<(), DistRunError> {
    let differ = first.differences(second);
    if differ.is_empty() {
        eprintln!("dist: the same {} files when {how}", first.files.len());
        return Ok(());
    }
    Err(DistRunError::Differ(differ))
}

/// Writes the files and their digests.
fn write(folder: &Path, made: &Made) -> Result<(), DistRunError> {
    files::remove(folder)?;
    files::create_folder(folder)?;
    for (name, data) in &made.files {
        files::write(&folder.join(name), data)?;
    }
    Ok(())
}

/// A step that is done now.
fn step(number: usize, name: &str, doing: &str) -> Progress {
    let mut progress = Progress::new(number, STEPS, name);
    progress.begin(doing);
    progress
}
