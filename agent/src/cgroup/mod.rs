//! What cgroups exist and what their files say, on cgroup v1, hybrid and v2.
//!
//! - [`Layout`]: which controller lives on which mounted hierarchy, found from the mounts themselves (never from
//!   `/proc/cgroups`, which newer kernels fill with controllers that no longer exist).
//! - [`walk`]: every cgroup of a hierarchy with its kernel id.
//! - [`GroupReader`]: the files of one cgroup, read with `pread` on kept-open descriptors, as [`crate::view::Usage`].
//! - [`identify`]: which pod and container a path is, by the kubelet's shapes.
//! - [`MachineReader`]: the node as a whole.

mod controller;
mod error;
mod group_path;
mod identity;
mod layout;
mod mountinfo;
#[cfg(test)]
mod testing;
mod walk;

pub use controller::{Controller, Version};
pub use error::{CgroupError, Malformed};
pub use identity::identify;
pub use layout::{Facts, Hierarchy, Layout, LayoutKind, MountFact};
pub use mountinfo::Membership;
pub use walk::{Walk, walk};
