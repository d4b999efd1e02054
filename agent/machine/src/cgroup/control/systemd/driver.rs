//! The driver itself: sets the unit's properties first, then writes the files.

use std::fs;

use super::super::{CgroupName, Driver, DriverKind, Limits};
use super::bus::{Bus, talk};
use super::properties::{Dialect, adopted, of_slice, properties};
use super::settle::settle;
use super::{SystemdError, Unit, cpus};
use crate::cgroup::{CgroupError, Version};

/// File with the list of all CPUs that this machine can have.
const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";

/// Creates slices through systemd. The cgroupfs driver does what systemd has no property for: some limits,
/// the directories of hierarchies that systemd does not use, and the controllers that it does not know.
///
/// Its methods block, up to half a minute if systemd does not answer, and each uses a connection and a small
/// runtime of its own: call them from plain threads (or `spawn_blocking`), never from async code, where they
/// would panic. They may run concurrently.
#[derive(Debug)]
pub struct Systemd {
    files: Box<dyn Driver>,
    cgroups: Version,
}

impl Systemd {
    /// `files` is the cgroupfs driver; `cgroups` is the version of the hierarchies with the controllers (v1
    /// on hybrid: its v2 tree has none of those that systemd sets).
    pub fn new(files: impl Driver + 'static, cgroups: Version) -> Self {
        Self { files: Box::new(files), cgroups }
    }

    fn dialect(&self, bus: &Bus) -> Dialect {
        Dialect { cgroups: self.cgroups, systemd: bus.version }
    }

    /// Creates the unit if it is not active, and sets these limits.
    fn make(&self, unit: &Unit, path: &str, limits: &Limits) -> Result<(), SystemdError> {
        talk(async |bus| {
            let dialect = self.dialect(bus);
            let asked = properties(limits, dialect)?;
            if !unit.is_slice() {
                if bus.state(unit).await? != "active" {
                    return Err(SystemdError::NotASlice { unit: unit.name().into() });
                }
                return bus.set(unit, &asked).await;
            }
            let made_with = of_slice(unit, &possible_cpus(), dialect);
            let made = bus.start_transient(unit, &made_with).await?;
            let all = if made { asked } else { adopted(made_with).chain(asked).collect() };
            bus.set(unit, &all).await?;
            let place = bus.control_group(unit).await?;
            if place != path && !place.is_empty() {
                return Err(SystemdError::Elsewhere { path: path.into(), unit: unit.name().into(), place });
            }
            Ok(())
        })
    }

    /// Sets the limits of an active unit; `false` if it is not active.
    fn set_properties(&self, unit: &Unit, limits: &Limits) -> Result<bool, SystemdError> {
        talk(async |bus| {
            let asked = properties(limits, self.dialect(bus))?;
            if bus.state(unit).await? != "active" {
                return Ok(false);
            }
            bus.set(unit, &asked).await.map(|()| true)
        })
    }
}

/// The unit of a cgroup that is not the root.
fn unit_of(path: &str) -> Result<Unit, CgroupError> {
    let unit = Unit::of_path(path)?;
    if unit.slice().is_none() { Err(CgroupError::Root) } else { Ok(unit) }
}

impl Driver for Systemd {
    fn kind(&self) -> DriverKind {
        DriverKind::Systemd
    }

    fn path(&self, name: &CgroupName) -> String {
        name.systemd_path()
    }

    /// A container's scope can only be created with its first process, by the runtime: it has to exist
    /// already.
    fn create(&self, path: &str, limits: &Limits) -> Result<(), CgroupError> {
        self.make(&unit_of(path)?, path, limits)?;
        self.files.create(path, &self.settled(limits))
    }

    /// A slice that is not active is created, although its directory may exist.
    fn set(&self, path: &str, limits: &Limits) -> Result<(), CgroupError> {
        if !self.set_properties(&unit_of(path)?, limits)? {
            return self.create(path, limits);
        }
        // systemd writes the files after it has answered; the next reader must not see the old values.
        self.files.set(path, &self.settled(limits))
    }

    fn remove(&self, path: &str) -> Result<(), CgroupError> {
        let unit = match unit_of(path) {
            // Directories that are left and for which systemd has no unit.
            Err(CgroupError::Systemd(SystemdError::NoUnit { .. } | SystemdError::Elsewhere { .. })) => {
                return self.files.remove(path);
            }
            unit => unit?,
        };
        talk(async |bus| {
            // Stopping the unit would kill these processes.
            if let Some((group, pid, command)) = bus.processes(&unit).await?.into_iter().next() {
                return Err(SystemdError::Busy { unit: unit.name().into(), group, pid, command });
            }
            bus.stop(&unit).await
        })?;
        self.files.remove(path)
    }

    fn settled(&self, limits: &Limits) -> Limits {
        self.files.settled(&settle(limits))
    }
}

/// Empty if they cannot be read: then only the cgroupfs driver keeps the cpuset controller enabled.
fn possible_cpus() -> Vec<u8> {
    fs::read_to_string(POSSIBLE_CPUS).ok().and_then(|list| cpus::mask(&list).ok()).unwrap_or_default()
}
