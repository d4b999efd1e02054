//! All operations on cgroups, with either driver. A cgroup is given by its path below the mounts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::destroy::{Destroyed, InFlight};
use super::group_files::check_path;
use super::{
    CgroupName, Consumption, CpuShare, DestroyError, Driver, DriverKind, GroupFiles, Limits, destroy, members,
};
use crate::cgroup::{CgroupError, Layout};

/// In which hierarchies a cgroup has its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// In none of the hierarchies.
    Nowhere,
    /// In some hierarchies: an interrupted call has created or removed only a part.
    Partly {
        /// The directories that do not exist.
        missing: Vec<PathBuf>,
    },
    /// In each hierarchy whose controllers are used.
    Everywhere,
}

/// Creates, changes, reads and removes cgroups. Its calls block (on files, on D-Bus, in [`Manager::destroy`]
/// until processes end), so they must not be made in an async task.
#[derive(Debug)]
pub struct Manager {
    driver: Arc<dyn Driver>,
    files: GroupFiles,
    in_flight: InFlight,
}

impl Manager {
    /// A manager with this driver on a machine with this layout.
    pub fn new(driver: Arc<dyn Driver>, layout: Arc<Layout>) -> Self {
        Self { driver, files: GroupFiles::new(layout), in_flight: InFlight::default() }
    }

    /// The machine's layout.
    pub fn layout(&self) -> &Layout {
        self.files.layout()
    }

    /// Which of the two drivers it uses.
    pub fn kind(&self) -> DriverKind {
        self.driver.kind()
    }

    /// The path that the driver gives to a name.
    pub fn path(&self, name: &CgroupName) -> String {
        self.driver.path(name)
    }

    /// The limits that [`Manager::read`] returns after [`Manager::set`].
    pub fn settled(&self, limits: &Limits) -> Limits {
        self.driver.settled(limits)
    }

    /// In which hierarchies the cgroup exists.
    pub fn presence(&self, path: &str) -> Presence {
        let mut any = false;
        let mut missing = Vec::new();
        for (_, dir) in self.files.directories(path) {
            if dir.is_dir() { any = true } else { missing.push(dir) }
        }
        match (any, missing.is_empty()) {
            (false, _) => Presence::Nowhere,
            (true, false) => Presence::Partly { missing },
            (true, true) => Presence::Everywhere,
        }
    }

    /// Whether it exists in every hierarchy (the kubelet's `Exists`).
    pub fn exists(&self, path: &str) -> bool {
        self.presence(path) == Presence::Everywhere
    }

    /// Creates the cgroup where it is missing and sets `limits`. Its parent must exist.
    ///
    /// # Errors
    /// As [`Driver::create`].
    pub fn create(&self, path: &str, limits: &Limits) -> Result<(), CgroupError> {
        self.driver.create(path, limits)
    }

    /// Sets the limits that `limits` contains.
    ///
    /// # Errors
    /// As [`Driver::set`].
    pub fn set(&self, path: &str, limits: &Limits) -> Result<(), CgroupError> {
        self.driver.set(path, limits)
    }

    /// The limits that its files contain; all `None` for a cgroup that does not exist.
    ///
    /// # Errors
    /// A file exists and cannot be read, or has content that the kernel does not write there.
    pub fn read(&self, path: &str) -> Result<Limits, CgroupError> {
        self.files.read(path)
    }

    /// As [`Manager::read`], but without what no limit of `wanted` can be compared with: on v1 half of the
    /// files.
    ///
    /// # Errors
    /// As [`Manager::read`].
    pub fn read_for(&self, path: &str, wanted: &Limits) -> Result<Limits, CgroupError> {
        self.files.read_for(path, wanted)
    }

    /// Gives it the smallest share of the CPU, for a pod that is being terminated (the kubelet's
    /// `ReduceCPULimits`).
    ///
    /// # Errors
    /// As [`Driver::set`].
    pub fn reduce_cpu(&self, path: &str) -> Result<(), CgroupError> {
        self.set(path, &Limits { cpu: Some(CpuShare::Shares(2)), ..Limits::default() })
    }

    /// Names of its children in all hierarchies, sorted.
    ///
    /// # Errors
    /// A directory exists and cannot be listed.
    pub fn children(&self, path: &str) -> Result<BTreeSet<String>, CgroupError> {
        members::children(&self.files, path.trim_end_matches('/'))
    }

    /// As [`Manager::children`]; of each whether it exists in every hierarchy, as by [`Manager::exists`].
    ///
    /// # Errors
    /// As [`Manager::children`].
    pub fn children_by_presence(&self, path: &str) -> Result<BTreeMap<String, bool>, CgroupError> {
        members::children_by_presence(&self.files, path.trim_end_matches('/'))
    }

    /// Names of its children in the hierarchy of memory (or of the CPU where there is none), sorted: a
    /// runtime makes a container's cgroup in every hierarchy, and on v1 there are a dozen to list.
    ///
    /// # Errors
    /// As [`Self::children`].
    pub fn containers(&self, path: &str) -> Result<BTreeSet<String>, CgroupError> {
        members::children_in_one(&self.files, path.trim_end_matches('/'))
    }

    /// Every process in it and below it, in all hierarchies.
    ///
    /// # Errors
    /// A file exists and cannot be read.
    pub fn pids(&self, path: &str) -> Result<BTreeSet<i32>, CgroupError> {
        members::pids(&self.files, &members::subtree(&self.files, path.trim_end_matches('/'))?)
    }

    /// Its resource usage now.
    ///
    /// # Errors
    /// A file exists and cannot be read.
    pub fn usage(&self, path: &str) -> Result<Consumption, CgroupError> {
        Consumption::read(&self.files, path)
    }

    /// Its memory in use, in bytes. `None` only if nothing is: it does not exist, or its memory is not
    /// counted.
    ///
    /// # Errors
    /// The file exists and cannot be read, or has no number.
    pub fn memory_in_use(&self, path: &str) -> Result<Option<u64>, CgroupError> {
        Consumption::read_memory(&self.files, path)
    }

    /// Kills the processes in it and below it, and removes it and everything below from every hierarchy,
    /// trying again until `patience` is over. It is no error if it does not exist: another program may have
    /// removed it.
    ///
    /// # Errors
    /// Another call is destroying it ([`DestroyError::InFlight`]); it contains this process or process 1
    /// ([`DestroyError::Holds`]); or it still exists ([`DestroyError::StillThere`] names the processes, the
    /// directory and the kernel's error).
    pub fn destroy(&self, path: &str, patience: Duration) -> Result<Destroyed, DestroyError> {
        check_path(path)?;
        let _attempt = self.in_flight.begin(path)?;
        destroy::destroy(&*self.driver, &self.files, path, patience)
    }

    /// Removes it and everything below it if there is no process in it. Returns whether it is gone: false if
    /// there is one. Nothing is killed: the kernel refuses to remove a cgroup that has got a process
    /// meanwhile, and so does the systemd driver.
    ///
    /// # Errors
    /// Another call is at it, or a directory cannot be listed or removed.
    pub fn remove_empty(&self, path: &str) -> Result<bool, DestroyError> {
        check_path(path)?;
        let _attempt = self.in_flight.begin(path)?;
        Ok(destroy::remove_empty(&*self.driver, &self.files, path)?)
    }

    /// Removes it if neither a process nor a cgroup is in it. Returns whether it is gone.
    ///
    /// # Errors
    /// As [`Self::remove_empty`].
    pub fn remove_childless(&self, path: &str) -> Result<bool, DestroyError> {
        check_path(path)?;
        let _attempt = self.in_flight.begin(path)?;
        Ok(destroy::remove_childless(&*self.driver, &self.files, path)?)
    }
}

#[cfg(test)]
mod tests;
