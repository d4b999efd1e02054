//! `cargo xtask book`: the documents as a book, by mdBook.
//!
//! The pages are copied into one folder in which they lie as in the repository, with what they link to, so
//! that their links need no change. Only the table of contents, which is in `docs`, moves one folder up.

#[cfg(test)]
mod commands;
#[cfg(test)]
mod links;

use std::path::{Path, PathBuf};
use std::{fs, io};

use thiserror::Error;

use crate::setup::{self, MDBOOK, Purpose, SetupError};
use xtask_common::files::{self, FileError};
use xtask_common::layout::Layout;
use xtask_common::process::{self, CommandError};

/// What of the repository is in the book, or is linked to by its pages.
const SOURCES: [&str; 8] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-GPL",
    "README.md",
    "SECURITY.md",
    "deploy",
    "docs",
];

/// Arguments of `cargo xtask book`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Leaves the book in target/book/html. The first time it compiles mdBook, about two minutes."
)]
pub struct Args {}

/// The book could not be built.
#[derive(Debug, Error)]
pub enum BookError {
    /// mdBook could not be installed.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A file could not be copied or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A folder could not be read.
    #[error("cannot read {}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// mdBook failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// mdBook warned.
    #[error("mdBook has warnings")]
    Warnings,
}

/// `cargo xtask book`.
///
/// # Errors
/// When mdBook cannot be installed, fails or has a warning.
pub fn run(layout: &Layout, _: &Args) -> Result<(), BookError> {
    setup::ensure(layout, Purpose::Book)?;
    let folder = layout.target.join("book");
    let source = folder.join("source");
    files::remove(&folder)?;
    files::create_folder(&source)?;
    for name in SOURCES {
        copy(&layout.root.join(name), &source.join(name))?;
    }
    files::rename(&source.join("docs/book.toml"), &source.join("book.toml"))?;
    let summary = source.join("docs/SUMMARY.md");
    let contents = String::from_utf8_lossy(&files::read(&summary)?).into_owned();
    files::write(&source.join("SUMMARY.md"), one_folder_up(&contents))?;
    files::remove(&summary)?;

    let mut mdbook = layout.command(MDBOOK.program(layout));
    mdbook.arg("build").arg(&source);
    let mut warned = false;
    process::follow(&mut mdbook, |line| {
        let Some(line) = line else { return };
        eprintln!("{line}");
        warned |= is_warning(line);
    })?;
    if warned {
        return Err(BookError::Warnings);
    }
    eprintln!("book: {}", folder.join("html/index.html").display());
    Ok(())
}

/// The table of contents of `docs` as that of the folder above it.
fn one_folder_up(summary: &str) -> String {
    summary.replace("](", "](docs/").replace("](docs/../", "](")
}

/// Whether mdBook's line is a warning or an error.
fn is_warning(line: &str) -> bool {
    line.split_whitespace().take(3).any(|word| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphabetic());
        word.eq_ignore_ascii_case("WARN") || word.eq_ignore_ascii_case("ERROR")
    })
}

/// Copies a file or a folder.
fn copy(from: &Path, to: &Path) -> Result<(), BookError> {
    if !from.is_dir() {
        return Ok(files::write(to, files::read(from)?)?);
    }
    files::create_folder(to)?;
    let unreadable = |source| BookError::Folder { path: from.to_owned(), source };
    for entry in fs::read_dir(from).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        copy(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_move_one_folder_up() {
        assert_eq!(one_folder_up("[a](b.md)\n[c](../D.md)"), "[a](docs/b.md)\n[c](D.md)");
    }

    #[test]
    fn warnings_are_recognised() {
        for line in [" WARN chapter is missing", "2026-11-25 00:00:00 [WARN] (mdbook): x", "ERROR x"] {
            assert!(is_warning(line), "{line}");
        }
        assert!(!is_warning(" INFO Book building has started"));
    }
}
