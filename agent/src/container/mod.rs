//! From a pod's manifest to what a container runtime is told: pure, but for the hooks that are run.
//!
//! - [`PodPaths`]: where a pod's files are.

mod paths;

pub use paths::PodPaths;
