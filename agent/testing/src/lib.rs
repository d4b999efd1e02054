//! What unit tests of every crate need: the recordings of a real kubelet ([`golden`]), how a test that cannot
//! run here reports that ([`mod@skip`]), and a file system that never answers ([`HungFuse`]).

#![deny(missing_docs)]

pub mod golden;
mod hung_fuse;
mod skip;

pub use hung_fuse::HungFuse;
pub use skip::{SKIPPED, skip};
