//! Watches the node's cgroups: which there are ([`registry`], [`tree`]), what they use ([`files`],
//! [`counters`]), and both joined to one reading ([`sampler`]).

#![deny(missing_docs)]

pub mod counters;
pub mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod registry;
pub mod sampler;
pub mod tree;
