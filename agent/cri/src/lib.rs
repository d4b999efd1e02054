//! Client of the container runtime over CRI v1: its status and cgroup driver, the sandboxes, containers and
//! images of pods, and the names for the ids in cgroup paths.
//!
//! - [`Client`]: the calls, each with a time limit; one file per kind of object.
//! - [`Table`]: pod and container names by id, kept for a while after the runtime has removed the object.
//! - [`mod@enrich`]: adds the names of a table to an identity.
//! - [`Names`]: a table that is updated in the background and looked up without blocking.
//! - [`SharedList`]: lists that several parts need at the same time, asked for once.
//! - [`Question`]: a call whose answer may come after the patience of its caller.

#![deny(missing_docs)]

mod cache;
mod client;
mod cni_results;
mod condition;
#[cfg(any(test, feature = "testing"))]
pub mod containerd_fixture;
mod containers;
mod enrich;
mod error;
mod events;
mod exec;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod image_reference;
mod images;
pub mod labels;
mod listing;
pub mod logs;
mod names;
mod pace;
mod patient;
mod question;
#[cfg(any(test, feature = "testing"))]
pub mod runtime_fixture;
mod sandboxes;
mod shared_list;
mod streaming;
mod table;
#[cfg(test)]
mod tests;

pub use client::{Client, Version};
pub use condition::Condition;
pub use enrich::enrich;
pub use error::reason;
pub use error::{About, RuntimeError};
pub use events::Events;
pub use exec::ExecOutput;
pub use listing::{Labels, ListedContainer, ListedSandbox, Listing};
pub use names::{Named, Names, State};
pub use question::{Answer, Question};
pub use shared_list::SharedList;
pub use streaming::{Address, ExecCommand, ExecError, ExecInput};
pub use table::Table;
