//! The daemon in manage mode: gathers pods and the state of the hierarchy, and carries out what `qos` decides.
//!
//! One thread keeps the hierarchy ([`keeper`]): woken by changed pods and once in a while, it reads what is, plans
//! ([`steps`], a pure function) and writes. A change of the pods has it touch only what it is about; once in a while
//! everything is compared. What it has made is noted on disk before it is made ([`owned`]), so that
//! after a crash it finishes or removes its own and never touches what somebody else made.

mod containers;
mod decide;
mod destroyer;
mod entry;
mod error;
#[cfg(test)]
mod fixture;
mod keep;
mod keeper;
mod machine;
mod overlay;
mod owned;
mod places;
mod plan;
mod problems;
mod sources;
#[cfg(test)]
mod speed;
mod start;
mod steps;
mod sync;
mod timed;

pub use containers::Namer;
pub use error::ManageError;
pub use keep::{Keep, Kept, Place, Places};
pub use keeper::{Keeper, PodSink, Squeezable};

pub use machine::{facts, node_name};
pub use overlay::{Overlay, Squeeze};
pub use plan::{Plan, PlannedPod, file_values};
pub use sources::sources;
pub use start::{Prepared, prepare};
pub use sync::HasVolumes;
