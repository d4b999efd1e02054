//! Making, changing and removing cgroups: names, limits, the cgroupfs and the systemd driver, destroying what is left.
//!
//! Observe mode uses nothing of this.

mod bound;
mod cgroupfs;
mod driver;
mod limits;
mod name;
mod systemd;

pub use bound::{Bound, CpuQuota, PageSize};
pub use driver::{Driver, DriverKind};
pub use limits::{CpuShare, Limits};
pub use name::{CgroupName, NameError};
pub use systemd::{Systemd, SystemdError};
