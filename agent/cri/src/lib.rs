//! The container runtime, spoken to over CRI v1: how it is, which cgroup driver it uses, the sandboxes, containers and
//! images of pods, and the names behind the ids in cgroup paths.
//!
//! - [`Client`]: the calls that are used, each with a time limit; one file a kind of thing they are about.
//! - [`Table`]: which pod and container an id is, kept for a while after the runtime forgot it.
//! - [`enrich`]: an identity with the names of a table.
//! - [`Names`]: a table kept up to date in the background and looked up without waiting.

mod cache;
mod client;
mod condition;
#[cfg(any(test, feature = "testing"))]
pub mod containerd_fixture;
#[cfg(test)]
mod containerd_image_tests;
#[cfg(test)]
mod containerd_life_tests;
#[cfg(test)]
mod containerd_tests;
mod containers;
mod enrich;
mod error;
mod events;
mod exec;
pub mod image_reference;
mod images;
pub mod logs;
mod names;
mod pace;
mod sandboxes;
#[cfg(test)]
mod server_tests;
mod streaming;
mod table;

pub use client::{Client, Version};
pub use condition::Condition;
pub use enrich::enrich;
pub use error::reason;
pub use error::{About, RuntimeError};
pub use events::Events;
pub use exec::ExecOutput;
pub use names::{Names, State};
pub use streaming::{ExecCommand, ExecError, ExecInput};
pub use table::{Listing, Table};
