//! Watches the node's cgroups: which there are ([`registry`], [`tree`]), what they use ([`files`],
//! [`counters`]), and both joined to one reading ([`sampler`]).

#![deny(missing_docs)]

pub mod counters;
pub mod files;
pub mod registry;
pub mod sampler;
pub mod tree;
