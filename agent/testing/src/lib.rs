//! What unit tests of every crate need: the recordings of a real kubelet ([`golden`]), how a test that cannot
//! run here reports that ([`mod@skip`]), a file system that never answers ([`HungFuse`]), a network of a
//! test's own ([`in_network_namespace`]), and the commands and links of the documents ([`documents`]).

#![deny(missing_docs)]

pub mod documents;
pub mod golden;
mod hung_fuse;
mod network_namespace;
mod skip;

pub use hung_fuse::HungFuse;
pub use network_namespace::in_network_namespace;
pub use skip::{SKIPPED, skip};
