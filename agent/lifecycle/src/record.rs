//! What of a pod must outlive the agent: its record, and the files that keep the records.

mod evicted;
pub mod manifest;
mod pod;
pub mod saver;
pub mod store;

pub use evicted::Evicted;
pub use pod::{ContainerRecord, Ending, OOM_KILLED, Record};
#[cfg(test)]
pub use pod::ProbeRecord;
