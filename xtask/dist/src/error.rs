//! Why something could not be made.

use std::io;

use thiserror::Error;

/// A package or an image could not be made.
#[derive(Debug, Error)]
pub enum DistError {
    /// An archive in memory could not be written.
    #[error("cannot write {what}")]
    Write {
        /// Which archive.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The binary is no program that this can look into.
    #[error("the binary is no 64-bit ELF file: {0}")]
    Elf(#[from] object::Error),
    /// The binary needs a newer C library than it may.
    #[error("the binary needs {needs}, but must run with {allowed}: {}", symbols.join(", "))]
    CLibrary {
        /// The newest version that it needs.
        needs: String,
        /// The newest version that it may need.
        allowed: String,
        /// The symbols of versions that are too new.
        symbols: Vec<String>,
    },
    /// The binary is too large.
    #[error("the stripped binary has {size} bytes, more than {allowed}")]
    Size {
        /// Its size.
        size: u64,
        /// The largest size.
        allowed: u64,
    },
    /// A time can't be written in the format of an archive.
    #[error("{0} is no time that an archive can have")]
    Time(i64),
    /// The RPM package could not be made.
    #[error("the RPM package: {0}")]
    Rpm(#[from] ::rpm::Error),
    /// What `cargo metadata` says is not understood.
    #[error("cargo metadata is not understood")]
    Metadata(#[from] serde_json::Error),
    /// `cargo metadata` names a package that it does not describe.
    #[error("cargo metadata does not describe {0}")]
    UnknownPackage(String),
}

impl DistError {
    /// For `map_err`: the archive that could not be written.
    pub fn writing(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Write { what, source }
    }
}
