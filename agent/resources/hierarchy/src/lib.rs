//! The cgroup hierarchy of pods (kubelet: pkg/kubelet/cm): reads the state of the cgroups and writes what
//! `qos` decides.
//!
//! One thread reconciles the hierarchy (`manager`): woken by changed pods and by a timer, it reads the
//! cgroups, plans (`steps`, a pure function) and writes. After a change of the pods it touches only the
//! cgroups that are affected; periodically it compares all of them. Pod cgroups are recorded on disk before
//! they are created (`owned`), so that after a crash the agent finishes or removes its own cgroups and never
//! touches those of others.

#![deny(missing_docs)]

mod containers;
mod decide;
mod desired;
mod destroyer;
mod enforcement;
mod entry;
mod error;
#[cfg(test)]
mod fixture;
mod last_driver;
mod machine;
mod manager;
mod node_cgroups;
mod node_resources;
mod own_levels;
mod owned;
mod plan;
mod problems;
mod reconciler;
mod seen;
mod shared;
mod sources;
#[cfg(test)]
mod speed;
mod start;
mod status;
mod steps;
mod sweeper;
mod throttle;
mod timed;
mod touched;
mod unused;
mod withhold;

pub use containers::Namer;
pub use desired::{DesiredCgroup, DesiredCgroups, PodCgroupState, PodCgroupStates};
pub use error::HierarchyError;
pub use machine::{facts, node_name};
pub use manager::{HierarchyHandle, HierarchyManager};
pub use plan::{Plan, PlannedPod, file_values};
pub use reconciler::HasVolumes;
pub use sources::sources;
pub use start::{Prepared, prepare};
pub use status::StatusReader;
pub use throttle::{ThrottleOverride, ThrottleOverrides, ThrottleTargets};
