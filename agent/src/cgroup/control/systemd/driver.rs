//! The driver itself: a unit first, then the files.

use std::fs;
use std::sync::OnceLock;

use super::super::{CgroupName, Driver, DriverKind, Limits};
use super::bus::{Bus, talk};
use super::properties::{Dialect, adopted, of_slice, properties};
use super::settle::settle;
use super::{SystemdError, Unit, cpus};
use crate::cgroup::{CgroupError, Version};

/// Every CPU that this machine could ever have.
const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";

/// Makes slices through systemd, and leaves to a driver of files what systemd has no property for.
///
/// Its methods block, up to half a minute when systemd does not answer, and each has a connection and a small runtime
/// of its own: call them from plain threads (or `spawn_blocking`), never from async code, where they would panic. They
/// may run at the same time.
#[derive(Debug)]
pub struct Systemd {
    files: Box<dyn Driver>,
    cgroups: Version,
    /// systemd's version, once asked for.
    version: OnceLock<u32>,
}

impl Systemd {
    /// `files` writes what has no property, makes the directories of hierarchies that systemd does not use, and
    /// removes them; `cgroups` is where the controllers are.
    pub fn new(files: impl Driver + 'static, cgroups: Version) -> Self {
        Self { files: Box::new(files), cgroups, version: OnceLock::new() }
    }

    async fn dialect(&self, bus: &Bus) -> Result<Dialect, SystemdError> {
        let systemd = match self.version.get() {
            Some(version) => *version,
            None => {
                let asked = bus.version().await?;
                *self.version.get_or_init(|| asked)
            }
        };
        Ok(Dialect { cgroups: self.cgroups, systemd })
    }

    /// The unit is active, with these limits. A slice is started if it is not; `anew` also gives one that was active
    /// what our own are made with.
    fn unit(&self, path: &str, limits: &Limits, anew: bool) -> Result<(), SystemdError> {
        let unit = Unit::of_path(path)?;
        talk(async |bus| {
            let dialect = self.dialect(bus).await?;
            let told = properties(limits, dialect)?;
            if !anew && bus.state(&unit).await? == "active" {
                return bus.set(&unit, &told).await;
            }
            if !unit.is_slice() {
                if bus.state(&unit).await? != "active" {
                    return Err(SystemdError::NotASlice { unit: unit.name().into() });
                }
                return bus.set(&unit, &told).await;
            }
            let made_with = of_slice(&unit, &possible_cpus(), dialect);
            let made = bus.start_transient(&unit, &made_with).await?;
            let all = if made { told } else { adopted(made_with).chain(told).collect() };
            bus.set(&unit, &all).await?;
            let place = bus.control_group(&unit).await?;
            if place != path && !place.is_empty() {
                return Err(SystemdError::Elsewhere { path: path.into(), unit: unit.name().into(), place });
            }
            Ok(())
        })
    }
}

impl Driver for Systemd {
    fn kind(&self) -> DriverKind {
        DriverKind::Systemd
    }

    fn path(&self, name: &CgroupName) -> String {
        name.systemd_path()
    }

    /// A container's scope can only be made by who starts its first process: it has to be there already.
    fn create(&self, path: &str, limits: &Limits) -> Result<(), CgroupError> {
        self.unit(path, limits, true)?;
        self.files.create(path, &self.settled(limits))
    }

    /// A slice whose directory is there but whose unit is not active, is started.
    fn set(&self, path: &str, limits: &Limits) -> Result<(), CgroupError> {
        self.unit(path, limits, false)?;
        // systemd writes the files after it has answered. Whoever reads them next must not see the old values.
        self.files.set(path, &self.settled(limits))
    }

    fn remove(&self, path: &str) -> Result<(), CgroupError> {
        let unit = Unit::of_path(path)?;
        talk(async |bus| {
            // Stopping a unit would kill them.
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

/// None if they can't be read: then the cpuset controller is kept by the files' driver alone.
fn possible_cpus() -> Vec<u8> {
    fs::read_to_string(POSSIBLE_CPUS).ok().and_then(|list| cpus::mask(&list).ok()).unwrap_or_default()
}
