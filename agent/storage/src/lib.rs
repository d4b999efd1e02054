//! What outlives the agent on disk: state files with a version and a checksum ([`state_file`]), and the journal of
//! events ([`journal`]).

pub mod journal;
pub mod state_file;
