//! The drivers that create and change cgroups: through the file system alone, or through systemd.

use std::fmt;

use super::{CgroupName, Limits};
use crate::cgroup::CgroupError;

/// The kubelet's `cgroupDriver`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum DriverKind {
    /// Cgroups are created as directories.
    Cgroupfs,
    /// Cgroups are created as units of systemd, over D-Bus.
    Systemd,
}

/// What differs between the drivers. Paths are those of cgroups below the mounts (`/kubepods/burstable`).
pub trait Driver: Send + Sync + fmt::Debug {
    /// Which of the two drivers this is.
    fn kind(&self) -> DriverKind;

    /// The path that this driver gives to a name.
    fn path(&self, name: &CgroupName) -> String;

    /// Creates the cgroup in every hierarchy where it is missing, and sets `limits`. Its parent must exist.
    /// Also completes what an interrupted call left.
    fn create(&self, path: &str, limits: &Limits) -> Result<(), CgroupError>;

    /// Sets the limits that `limits` contains on an existing cgroup.
    fn set(&self, path: &str, limits: &Limits) -> Result<(), CgroupError>;

    /// Removes a cgroup without processes and without children. It is no error if there is none.
    fn remove(&self, path: &str) -> Result<(), CgroupError>;

    /// The limits that the files contain after [`Driver::set`]: systemd rounds a CPU quota up to 10 ms per
    /// second.
    fn settled(&self, limits: &Limits) -> Limits;
}
