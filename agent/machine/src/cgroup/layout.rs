//! Which controller is on which hierarchy of this machine.
//!
//! [`Layout::decide`] is a pure function of [`Facts`]; [`Facts::gather`] reads them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, statfs};
use strum::IntoEnumIterator;

use super::membership::{Membership, parse_memberships};
use super::{CgroupError, Controller, Version};
use crate::mountinfo::{self, MountInfo};

/// How a machine uses cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutKind {
    /// Only v1 hierarchies.
    V1,
    /// Controllers on v1, and the v2 tree as well.
    Hybrid,
    /// Everything on v2.
    V2,
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::Hybrid => "hybrid",
            Self::V2 => "v2",
        })
    }
}

/// One mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its number in the kernel (`cgrp->root->hierarchy_id`), by which the eBPF programs distinguish
    /// hierarchies. 0 is v2.
    pub id: u32,
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The cgroup that is visible at `mount`: anything but `/` means that only a part of the tree is visible
    /// from here and that the kernel's own paths have other beginnings.
    pub mount_root: String,
    /// v1 or v2.
    pub version: Version,
    /// The controllers in use that are on it.
    pub controllers: Vec<Controller>,
}

/// The facts from which the layout is determined.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The cgroup mounts, in the order of the mount table.
    pub mounts: Vec<MountFact>,
    /// The hierarchies, and where this process is in each.
    pub memberships: Vec<Membership>,
}

/// One cgroup mount of the mount table.
#[derive(Debug, Clone)]
pub struct MountFact {
    /// The cgroup that is visible at the mount point.
    pub root: String,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// v1 or v2.
    pub version: Version,
    /// v1: the file system's options, among them the controllers and `name=…`, sorted. v2: the words of
    /// `cgroup.controllers` at the mount point.
    pub controllers: Vec<String>,
    /// Whether statfs at the mount point reports this file system, so that nothing is mounted over it.
    pub visible: bool,
}

impl Facts {
    /// Reads them from `root`'s /proc and the mounts named there. With a `root` other than `/` (a fixture, or
    /// a host's tree mounted in a container) the mount points are looked for below it, and whether they
    /// really are cgroup file systems is not checked, since a copied tree cannot be one.
    pub fn gather(root: &Path) -> Result<Self, CgroupError> {
        let read = |path: PathBuf| fs::read(&path).map_err(|source| CgroupError::file("read", &path, source));
        let table = read(root.join("proc/self/mountinfo"))?;
        let memberships = read(root.join("proc/self/cgroup"))?;
        let memberships = parse_memberships(&String::from_utf8_lossy(&memberships));
        let check = root == Path::new("/");
        let mounts = mountinfo::parse(&table).filter_map(|mount| MountFact::of(mount, root, check)).collect();
        Ok(Self { mounts, memberships })
    }
}

impl MountFact {
    /// `None` for a mount of another file system.
    fn of(mount: MountInfo, root: &Path, check: bool) -> Option<Self> {
        let (version, magic) = match mount.fs_type.as_str() {
            "cgroup" => (Version::V1, CGROUP_SUPER_MAGIC),
            "cgroup2" => (Version::V2, CGROUP2_SUPER_MAGIC),
            _ => return None,
        };
        let below = mount.mount_point.strip_prefix("/").unwrap_or(&mount.mount_point);
        let mount_point = root.join(below);
        let visible = !check || statfs(&mount_point).is_ok_and(|s| s.filesystem_type() == magic);
        let controllers = match version {
            Version::V1 => {
                let option = |(key, value): (String, Option<String>)| match value {
                    Some(value) => format!("{key}={value}"),
                    None => key,
                };
                let mut options: Vec<_> = mount.super_options.into_iter().map(option).collect();
                options.sort_unstable();
                options
            }
            // If it cannot be read, the mount cannot be used and is treated as one without controllers.
            Version::V2 => fs::read_to_string(mount_point.join("cgroup.controllers"))
                .unwrap_or_default()
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        };
        Some(Self { root: mount.root, mount_point, version, controllers, visible })
    }
}

/// The hierarchies of this machine and their controllers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    kind: LayoutKind,
    hierarchies: Vec<Hierarchy>,
    others: Vec<Hierarchy>,
    freezer: Option<PathBuf>,
    devices: Option<PathBuf>,
    missing: Vec<Controller>,
}

impl Layout {
    /// Reads the layout of this machine.
    pub fn detect() -> Result<Self, CgroupError> {
        Self::detect_at(Path::new("/"))
    }

    /// Reads the layout of the machine, or the fixture, whose root directory is `root` (see
    /// [`Facts::gather`]).
    pub fn detect_at(root: &Path) -> Result<Self, CgroupError> {
        Self::decide(&Facts::gather(root)?).map_err(|err| match err {
            CgroupError::NotMounted { .. } => {
                CgroupError::NotMounted { mountinfo: root.join("proc/self/mountinfo") }
            }
            other => other,
        })
    }

    /// The layout that the facts describe.
    ///
    /// A controller is on the v1 hierarchy that is mounted with it, else on v2 if the v2 root offers it.
    /// Without cpu or memory there is no layout; other controllers may be [`Layout::missing`].
    pub fn decide(facts: &Facts) -> Result<Self, CgroupError> {
        let mut hierarchies: Vec<Hierarchy> = Vec::new();
        let mut others: Vec<Hierarchy> = Vec::new();
        for fact in facts.mounts.iter().filter(|m| m.visible) {
            let controllers = fact.controllers_of_interest();
            let id = match fact.version {
                Version::V2 => Some(0),
                Version::V1 => hierarchy_id(&facts.memberships, &fact.controllers),
            };
            let Some(id) = id else {
                if controllers.is_empty() {
                    continue;
                }
                return Err(CgroupError::UnknownHierarchy { mount: fact.mount_point.clone() });
            };
            let kept = match fact.version {
                // There is nothing to read in it (name=systemd, freezer), but a new cgroup must be created in
                // it too.
                Version::V1 if controllers.is_empty() => &mut others,
                _ => &mut hierarchies,
            };
            let found = Hierarchy {
                id,
                mount: fact.mount_point.clone(),
                mount_root: fact.root.clone(),
                version: fact.version,
                controllers,
            };
            match kept.iter_mut().find(|h| h.id == id) {
                Some(known) if better_mount(&found, known) => *known = found,
                Some(_) => {}
                None => kept.push(found),
            }
        }
        if hierarchies.is_empty() {
            return Err(CgroupError::NotMounted { mountinfo: PathBuf::from("/proc/self/mountinfo") });
        }
        let on_v1: Vec<Controller> = hierarchies
            .iter()
            .filter(|h| h.version == Version::V1)
            .flat_map(|h| h.controllers.clone())
            .collect();
        if let Some(v2) = hierarchies.iter_mut().find(|h| h.version == Version::V2) {
            v2.controllers.retain(|c| !on_v1.contains(c));
        }
        let kind = match (on_v1.is_empty(), hierarchies.iter().any(|h| h.version == Version::V2)) {
            (true, _) => LayoutKind::V2,
            (false, true) => LayoutKind::Hybrid,
            (false, false) => LayoutKind::V1,
        };
        let missing: Vec<Controller> =
            Controller::iter().filter(|c| !hierarchies.iter().any(|h| h.controllers.contains(c))).collect();
        if let Some(controller) = missing.iter().copied().find(|c| c.required()) {
            return Err(CgroupError::ControllerMissing { controller });
        }
        hierarchies.sort_by_key(|h| h.id);
        others.sort_by_key(|h| h.id);
        if kind == LayoutKind::V2 {
            // Another named hierarchy (`name=…`) has no cgroups of pods.
            others.clear();
        }
        let on_v1 = |controller: &str| {
            let with = |m: &&Membership| m.controllers.iter().any(|c| c == controller);
            let id = facts.memberships.iter().find(with)?.id;
            let mut all = hierarchies.iter().chain(&others).filter(|h| h.version == Version::V1);
            all.find(|h| h.id == id).map(|h| h.mount.clone())
        };
        let (freezer, devices) = (on_v1("freezer"), on_v1("devices"));
        Ok(Self { kind, hierarchies, others, freezer, devices, missing })
    }

    /// How this machine uses cgroups.
    pub fn kind(&self) -> LayoutKind {
        self.kind
    }

    /// The hierarchy of a controller; `None` if it is missing.
    pub fn hierarchy(&self, controller: Controller) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|h| h.controllers.contains(&controller))
    }

    /// Every mounted hierarchy with a controller in use, and the v2 tree; each once, by id.
    pub fn hierarchies(&self) -> &[Hierarchy] {
        &self.hierarchies
    }

    /// Every hierarchy in which a cgroup has a directory: those of [`Layout::hierarchies`], and on v1 and
    /// hybrid those without a controller of interest (devices, freezer, `name=systemd`). Each once.
    pub fn all(&self) -> impl Iterator<Item = &Hierarchy> {
        self.hierarchies.iter().chain(&self.others)
    }

    /// Where the v1 freezer is mounted. On v2 every cgroup has its own freezer.
    pub fn freezer(&self) -> Option<&Path> {
        self.freezer.as_deref()
    }

    /// Where the v1 devices controller is mounted. On v2 there is none: eBPF programs control access to
    /// devices.
    pub fn devices(&self) -> Option<&Path> {
        self.devices.as_deref()
    }

    /// The v2 tree, if it is mounted.
    pub fn unified(&self) -> Option<&Hierarchy> {
        self.hierarchies.iter().find(|h| h.version == Version::V2)
    }

    /// Optional controllers that this machine lacks (never cpu or memory).
    pub fn missing(&self) -> &[Controller] {
        &self.missing
    }

    /// Each controller in use with the version it is on, as `nodewarden status` shows it: `memory (v1)`.
    pub fn describe_controllers(&self) -> Vec<String> {
        Controller::iter()
            .filter_map(|c| {
                self.hierarchy(c).map(|h| format!("{} ({})", display_name(c, h.version), h.version))
            })
            .collect()
    }
}

fn display_name(controller: Controller, version: Version) -> &'static str {
    match version {
        Version::V1 => controller.v1_name(),
        Version::V2 => controller.v2_name().unwrap_or("cpuacct"),
    }
}

impl MountFact {
    fn controllers_of_interest(&self) -> Vec<Controller> {
        let has = |name: &str| self.controllers.iter().any(|c| c == name);
        Controller::iter()
            .filter(|c| match self.version {
                Version::V1 => has(c.v1_name()),
                Version::V2 => c.v2_name().is_none_or(has),
            })
            .collect()
    }
}

/// The number of the hierarchy that is mounted with `options`: its controllers or its name are among them.
fn hierarchy_id(memberships: &[Membership], options: &[String]) -> Option<u32> {
    memberships.iter().find(|m| m.controllers.iter().any(|name| options.contains(name))).map(|m| m.id)
}

/// Of several mounts of one hierarchy the one that shows it whole, then the one with the shorter path (others
/// are bind mounts for containers).
fn better_mount(new: &Hierarchy, known: &Hierarchy) -> bool {
    let rank = |h: &Hierarchy| (h.mount_root != "/", h.mount.as_os_str().len());
    rank(new) < rank(known)
}

#[cfg(test)]
mod tests;
