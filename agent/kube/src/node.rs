//! The node object: what it should be ([`status`], [`register`]: pure), and the task that makes the one at
//! the API server like it ([`run`]).

pub mod addresses;
pub mod conditions;
pub mod events;
pub mod facts;
#[cfg(test)]
pub mod fixture;
pub mod images;
pub mod patch;
pub mod register;
pub mod run;
pub mod status;
mod watch;

pub use events::NodeEvent;
pub use facts::{Image, NodeFacts, Pace, Pressures, Readings, RuntimeFacts, SystemFacts, Unmet};
pub use run::{Deps, NodeReader, Running, start};
pub use status::KUBELET_VERSION;
