//! nodewarden: a node agent that does what a kubelet does for a node's resources and is woken by the kernel.
//!
//! This crate is the top: the command line ([`cli`]) and the daemon that puts the parts together
//! ([`daemon`]). docs/ARCHITECTURE.md has the map of the crates below.

#![deny(missing_docs)]

pub mod cli;
mod daemon;
