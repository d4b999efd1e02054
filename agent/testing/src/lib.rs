//! What unit tests of every crate need: the recordings of a real kubelet ([`golden`]), and how a test that
//! cannot run here reports that ([`mod@skip`]).

#![deny(missing_docs)]

pub mod golden;
mod skip;

pub use skip::{SKIPPED, skip};
