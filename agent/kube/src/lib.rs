//! The client of the Kubernetes API server, in mode manage with a kubeconfig and in mode augment.
//!
//! [`Connection`] is what every other part of this crate talks through.

#![deny(missing_docs)]

mod by_value;
pub mod connection;
pub mod credentials;
mod error;
pub mod events;
pub mod evict;
pub mod gate;
pub mod known_pods;
pub mod lease;
pub mod mirror;
pub mod node;
pub mod objects;
pub mod pod_object;
pub mod review;
pub mod serving;
pub mod source;
pub mod stand_down;
mod starting;
pub mod status;
mod watched_lines;

pub use connection::Connection;
pub use error::KubeError;
pub use known_pods::{KnownPod, KnownPods, PodKey};
