//! Files that keep data beyond the life of the agent's process: state files with a version and a checksum
//! ([`state_file`]), written in the background where the caller must not wait for the disk
//! ([`write_behind`]), checkpoints in formats of others ([`checkpoint`]), keys and certificates
//! ([`private_file`]), and the journal of events ([`journal`]).

#![deny(missing_docs)]

pub mod checkpoint;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod journal;
pub mod private_file;
pub mod state_file;
pub mod write_behind;
