//! What pods use on disk.
//!
//! No system call returns that: directories have to be walked, which takes minutes for millions of files on a
//! slow disk. So a figure says whether it is complete; a walk that is not finished keeps its place and
//! continues in the next turn ([`walk`]); every directory of every pod gets its share of the time
//! ([`measurer`]); and the memory of all walks together is bounded ([`budget`]), whatever pods create.
//! Writable layers are found by the mounts that the runtime made ([`overlays`]); the runtime's own figures
//! ([`layers`]) replace a walk while they are new, and stand in for one that is not finished.
//!
//! Everything blocks on file systems: call it on a thread, not in an async task.

mod budget;
mod file_stat;
#[cfg(feature = "testing")]
pub mod fixture;
mod layers;
mod measurer;
mod names;
mod overlays;
mod pod;
mod walk;

#[cfg(test)]
pub use layers::Layers;
pub use layers::{LayersQuestion, writable_layers};
pub use measurer::Measurer;
pub use pod::{PodUse, Scope, Sources, with_disk};
