//! Writes the status of this node's pods to the API server: the newest one of each pod, only when it says
//! something else than what is there, and as often as it takes until it is there.
//!
//! [`writer`] follows the pods' statuses and what the API server is known to have; [`queue`] says whose turn
//! it is, [`due`] whether there is anything to write, [`patch`] what is sent.

pub(crate) mod answer;
mod due;
mod patch;
pub(crate) mod queue;
#[cfg(test)]
mod tests;
mod writer;
mod written;

pub use writer::{NodeFactsSource, Settings, StatusWriter};
pub use written::Written;
