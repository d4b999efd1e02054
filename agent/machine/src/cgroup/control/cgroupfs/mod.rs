//! The cgroupfs driver: creates and changes cgroups only through their files, on v1, hybrid and v2.
//!
//! A cgroup is created in every hierarchy, also in those without a controller of interest, as a runtime does
//! for its containers and the kubelet for pods. Every step can be repeated: the next call finishes what an
//! interrupted one left.

mod cpuset;
mod subtree;

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use log::warn;

use super::group_files::{check_path, remove_directory};
use super::{CgroupName, Driver, DriverKind, GroupFiles, Limits};
use crate::cgroup::{CgroupError, Controller, Layout, Version};

/// The cgroupfs driver; see the module.
#[derive(Debug)]
pub struct Cgroupfs {
    files: GroupFiles,
    /// Problems that were logged already; each is logged once.
    warned: Mutex<BTreeSet<String>>,
}

impl Cgroupfs {
    /// A driver that writes the files of this layout.
    pub fn new(layout: Arc<Layout>) -> Self {
        Self { files: GroupFiles::new(layout), warned: Mutex::default() }
    }

    fn make(&self, path: &str) -> Result<(), CgroupError> {
        for (hierarchy, dir) in self.files.directories(path) {
            if hierarchy.version == Version::V2 {
                self.warn_once(subtree::hand_down(&hierarchy.mount, path)?);
            }
            make_directory(&dir)?;
            match hierarchy.version {
                Version::V1 if hierarchy.controllers.contains(&Controller::Cpuset) => {
                    cpuset::fill(&hierarchy.mount, path)?;
                }
                Version::V1 => {}
                Version::V2 => subtree::check_required(&hierarchy.controllers, &dir)?,
            }
        }
        Ok(())
    }

    fn warn_once(&self, errors: Vec<CgroupError>) {
        for text in errors.iter().map(ToString::to_string) {
            if self.warned.lock().insert(text.clone()) {
                warn!("limits that need it are off: {text}");
            }
        }
    }
}

impl Driver for Cgroupfs {
    fn kind(&self) -> DriverKind {
        DriverKind::Cgroupfs
    }

    fn path(&self, name: &CgroupName) -> String {
        name.cgroupfs_path()
    }

    fn create(&self, path: &str, limits: &Limits) -> Result<(), CgroupError> {
        check_path(path)?;
        self.make(path)?;
        self.files.write(path, limits)
    }

    fn set(&self, path: &str, limits: &Limits) -> Result<(), CgroupError> {
        check_path(path)?;
        self.files.write(path, limits)
    }

    fn remove(&self, path: &str) -> Result<(), CgroupError> {
        check_path(path)?;
        let mut result = Ok(());
        for (_, dir) in self.files.directories(path) {
            result = result.and(remove_directory(&dir));
        }
        result
    }

    fn settled(&self, limits: &Limits) -> Limits {
        self.files.interface().settled(limits)
    }
}

/// Creates a directory whose parent exists; it is no error if the directory exists already.
fn make_directory(dir: &Path) -> Result<(), CgroupError> {
    match fs::create_dir(dir) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(CgroupError::file("mkdir", dir, source))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
