//! What of a pod must outlive the agent: its record, and the files that keep the records.

mod evicted;
mod given;
pub mod manifest;
mod pod;
pub mod saver;
pub mod store;

pub use evicted::Evicted;
#[cfg(test)]
pub use pod::ProbeRecord;
pub use pod::{ContainerRecord, Ending, Record};
