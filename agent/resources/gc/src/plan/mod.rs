//! What goes: functions of what was seen and of a time, without clock, file or await.

mod containers;
#[cfg(test)]
mod containers_tests;
mod images;
#[cfg(test)]
mod images_tests;
#[cfg(test)]
mod simulation;
mod space;

pub use containers::{ContainerPlan, SandboxFact, containers};
pub use images::{Aim, ImageFacts, ImagePlan, Users, images, keep};
pub use space::{FsFault, reached, wanted};
