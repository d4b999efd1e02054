//! Watches the node's cgroups: which there are ([`registry`], [`tree`]), what they use ([`files`],
//! [`counters`]), and both joined to one reading ([`sampler`]). [`limit_writes`]: who has written limits.

#![deny(missing_docs)]

pub mod counters;
pub mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod limit_writes;
pub mod registry;
pub mod sampler;
pub mod tree;
