//! Decides what to remove: pure functions of facts and a time, without clock, files or await.

mod containers;
mod images;
#[cfg(test)]
mod simulation;
mod space;

pub use containers::{DeadContainer, SandboxFact, containers};
pub use images::{Goal, ImageFacts, ImagePlan, images};
pub use space::{FsFault, reached, wanted};
