//! Packages, an image, a bill of materials and a provenance of one build of nodewarden.
//!
//! Everything here is a function of bytes: the same build of the same commit leads to the same files, on any
//! machine and at any time. `cargo xtask dist` builds the binary and writes what is made of it; the
//! end-to-end tests make the same packages of the binary under test, and install them.

#![deny(missing_docs)]

pub mod archive;
pub mod chart;
pub mod contents;
pub mod deb;
pub mod elf;
pub mod error;
pub mod generated;
pub mod image;
pub mod provenance;
pub mod release;
pub mod rpm;
pub mod sbom;
pub mod tree;
pub mod units;

pub use error::DistError;
pub use release::Release;
pub use tree::Tree;
