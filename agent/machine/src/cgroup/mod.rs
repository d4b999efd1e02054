//! The cgroups of the machine and the content of their files, on cgroup v1, hybrid and v2.
//!
//! - [`Layout`]: which controller is on which mounted hierarchy, found from the mounts themselves (never from
//!   `/proc/cgroups`, which newer kernels fill with controllers that no longer exist).
//! - [`mod@walk`]: every cgroup of a hierarchy with its kernel id.
//! - [`GroupReader`]: the files of one cgroup, read through kept-open descriptors, as
//!   [`nodewarden_model::Usage`].
//! - [`identify`]: the pod and container of a cgroup's path, by the kubelet's names.
//! - [`MachineReader`]: the node as a whole.
//! - [`mod@workloads`]: processes and network interfaces of pods.
//! - [`control`]: creating, changing and removing them.
//! - [`notices`]: which files of cgroups are written, as the kernel reports it.

mod activity;
pub mod control;
mod controller;
mod error;
mod files;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod group_path;
mod identity;
mod layout;
pub mod limit_changes;
mod machine;
mod membership;
pub mod notices;
pub mod parse;
mod reader;
mod v1;
mod v2;
mod walk;
mod workloads;

pub use activity::{Activity, KnownUsage, Sums};
pub use controller::{Controller, Version};
pub use error::CgroupError;
pub use files::Budget;
pub use files::pread_all;
pub use group_path::join;
pub use identity::identify;
pub use layout::{Facts, Hierarchy, Layout, LayoutKind, MountFact};
pub use machine::MachineReader;
pub use membership::{Membership, parse_memberships};
pub use reader::{Asked, GroupReader, ReaderFiles};
pub use walk::{Walk, walk};
pub use workloads::workloads;
