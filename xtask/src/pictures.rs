//! `cargo xtask pictures`: the pictures in docs/pictures, which the documents show.
//!
//! Those of `top` are drawn by a test of the agent from example data, and are always the same; those of the
//! page are taken of a real agent in a headless Chromium.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::ValueEnum;
use thiserror::Error;

use crate::build::{self, BuildError, Programs};
use crate::setup::{self, Purpose, SetupError};
use xtask_common::layout::{self, Layout, Profile};
use xtask_common::process::{self, CommandError};

/// Where the pictures are.
const FOLDER: &str = "docs/pictures";
/// Makes tests write what they otherwise compare.
const WRITE: &str = "NODEWARDEN_WRITE_DOCS";

/// Arguments of `cargo xtask pictures`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A test fails when `top` draws something else than its pictures show. Those of the page show a moment \
    and differ each time."
)]
pub struct Args {
    /// Only these
    #[arg(value_enum)]
    what: Option<What>,
}

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// `nodewarden top`.
    Top,
    /// The page, which needs root.
    Page,
}

/// The pictures could not be made.
#[derive(Debug, Error)]
pub enum PicturesError {
    /// Loading kernel programs and making cgroups needs root.
    #[error("the page is that of a real agent, which needs root; `cargo xtask pictures top` does not")]
    NotRoot,
    /// Something it needs could not be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The agent or the program that takes the pictures could not be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The folder could not be made.
    #[error("cannot make {}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The test or the program failed, and has shown why.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// `cargo xtask pictures`.
///
/// # Errors
/// When something can't be built or run.
pub fn run(layout: &Layout, args: &Args) -> Result<(), PicturesError> {
    let wanted = |what| args.what.is_none_or(|only| only == what);
    let page = wanted(What::Page);
    if page && !layout::is_root() {
        return Err(PicturesError::NotRoot);
    }
    setup::ensure(layout, if page { Purpose::Pictures } else { Purpose::Build })?;
    build::kernel_programs(layout, false)?;
    let folder = layout.root.join(FOLDER);
    fs::create_dir_all(&folder).map_err(|source| PicturesError::Folder { path: folder.clone(), source })?;
    if wanted(What::Top) {
        let mut cargo = layout.cargo();
        cargo.args(["test", "--package", "nodewarden", "--lib", "the_pictures"]).env(WRITE, "1");
        process::show(&mut cargo)?;
    }
    if page {
        build::host_programs(layout, Programs::Quick, false)?;
        let mut stage = layout.command(layout.program(Profile::Dev, "nodewarden-stage"));
        stage.arg("--agent").arg(layout.program(Profile::Dev, "nodewarden"));
        stage.args(["pictures", "--folder", FOLDER]);
        process::show(&mut stage)?;
    }
    eprintln!("the pictures are in {FOLDER}");
    Ok(())
}
