//! Creating, changing and removing cgroups: names, limits, the cgroupfs and the systemd driver, killing
//! processes and removing their cgroups.
//!
//! - [`CgroupName`]: a name and the path that each driver gives to it.
//! - [`Limits`] and, as texts of files, [`Interface`].
//! - [`Driver`]: what differs between [`Cgroupfs`] and systemd; [`Manager`]: all operations, with either
//!   driver.
//!
//! In mode observe nothing here is used.

mod bound;
mod cgroupfs;
mod consumption;
mod destroy;
mod driver;
mod files;
mod first_process;
mod group_files;
mod huge_page_limits;
mod limits;
mod manager;
mod members;
mod name;
mod systemd;

pub use bound::{Bound, CpuQuota, PageSize};
pub use cgroupfs::Cgroupfs;
pub use consumption::Consumption;
pub use destroy::{
    DestroyError, Destroyed, Held, Holdout, KillTarget, Killed, StillThere, is_empty, kill_now,
};
pub use driver::{Driver, DriverKind};
#[cfg(feature = "fuzzing")]
pub(crate) use files::NoValue;
pub use files::{Absent, Interface, Write};
pub use first_process::{FirstProcess, WatchedProcess};
pub use group_files::GroupFiles;
pub use huge_page_limits::HugePageLimits;
pub use limits::{CpuShare, LIMITED, Limits};
pub use manager::{Manager, Presence};
pub use name::{CgroupName, NameError};
pub use systemd::{MemoryBound, Systemd, SystemdError, keep_memory_bound};
