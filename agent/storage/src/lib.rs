//! What outlives the agent on disk: state files with a version and a checksum ([`state_file`]), written in
//! the background where no caller may wait for the disk ([`write_behind`]), and the journal of events
//! ([`journal`]).

pub mod journal;
pub mod state_file;
pub mod write_behind;
