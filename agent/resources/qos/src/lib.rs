//! The limits of every cgroup, computed from pods and the node's settings. Everything here is a function of
//! plain values.
//!
//! - [`tree()`]: the whole hierarchy, every cgroup with its limits. It is composed of `level` (node, QoS
//!   classes), [`pod`] and [`reserved`].
//! - [`container`]: the resources that are passed to the runtime for containers and sandboxes.
//! - `cpu`: millicores to shares and quota. [`weight`]: shares to weight, by either formula. `memory`:
//!   MemoryQoS. `oom`: `oom_score_adj`.
//! - [`Node`], [`HierarchyFacts`]: the inputs of all computations, besides the pods.

#![deny(missing_docs)]

pub mod allocatable;
mod amount;
pub mod container;
mod cpu;
mod facts;
mod level;
mod memory;
mod oom;
pub mod pod;
pub mod reserved;
mod tree;
mod unlimited;
pub mod weight;

pub use container::ContainerParameters;
pub use facts::{HierarchyFacts, Node, OptionalFiles};
pub use tree::{Group, Levels, Role, Tree, tree, tree_above};
pub use weight::{FormulaEvidence, WeightFormula};

#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(test)]
mod golden;
