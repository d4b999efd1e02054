//! Enforcement by the eBPF program at the kubepods root: writes the tables of pods and rules, and reads its
//! counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nodewarden_config::Enforcement;
use nodewarden_ebpf_abi::{
    ANY_MINOR, DEVICE_AUDIT, DEVICE_BLOCK, DEVICE_CHAR, DEVICE_ENFORCE, DEVICE_HAS_ANY_MINOR,
    DEVICE_ONLY_WATCHED, DEVICE_READ, DEVICE_WRITE, DeviceCount, DeviceKey, WATCHED,
};
use nodewarden_machine::cgroup::{Hierarchy, join};
use nodewarden_machine::ebpf::{DeviceTables, Kernel};
use nodewarden_model::{DenialCount, HostDeviceKind, device_name};

use super::error::EnforceError;
use crate::policy::{DeviceRule, PodPolicy, Scope};

/// Access bits by kind, major and minor number.
type Rules = BTreeMap<Numbers, u32>;
/// Kind, major and minor number.
type Numbers = (u32, u32, u32);

/// The attached program with its tables.
pub struct Filter {
    tables: DeviceTables,
    mount: PathBuf,
    root: PathBuf,
    /// Kernel id of the directory that the program is attached to.
    root_id: u64,
    /// Path of the kubepods cgroup.
    kubepods: String,
    /// Paths and kernel ids of the QoS classes' cgroups.
    classes: [Option<(String, u64)>; 2],
    pods: HashMap<String, GuardedPod>,
    /// The devices that are found out of pods with [`Scope::Watched`].
    watched: BTreeSet<Numbers>,
}

/// What the kernel's tables hold for a pod.
#[derive(Debug)]
struct GuardedPod {
    /// Kernel id of its cgroup.
    id: u64,
    mode: u32,
    rules: Rules,
}

impl Filter {
    /// Attaches the program to cgroup `kubepods` of the unified hierarchy.
    ///
    /// # Errors
    /// The reason as text, for the status.
    pub fn attach(kernel: &mut Kernel, unified: &Hierarchy, kubepods: &str) -> Result<Self, String> {
        Self::by(unified, kubepods, |root, level| kernel.attach_devices(root, level))
    }

    /// Attaches the substitute program, for kernels that refuse the usual one.
    #[cfg(test)]
    pub fn attach_substitute(
        kernel: &mut Kernel,
        unified: &Hierarchy,
        kubepods: &str,
    ) -> Result<Self, String> {
        Self::by(unified, kubepods, |root, level| kernel.attach_device_substitute(root, level))
    }

    fn by(
        unified: &Hierarchy,
        kubepods: &str,
        attach: impl FnOnce(&Path, u32) -> Result<DeviceTables, String>,
    ) -> Result<Self, String> {
        let root = join(&unified.mount, kubepods);
        let level = level(&unified.mount_root, kubepods)?;
        if !root.exists() {
            fs::create_dir_all(&root).map_err(|e| format!("make {}: {e}", root.display()))?;
        }
        let root_id = id_of(&root).map_err(|e| e.to_string())?;
        let tables = attach(&root, level)?;
        Ok(Self {
            tables,
            mount: unified.mount.clone(),
            root,
            root_id,
            kubepods: kubepods.to_owned(),
            classes: [None, None],
            pods: HashMap::new(),
            watched: BTreeSet::new(),
        })
    }

    /// Replaces the devices that are watched.
    ///
    /// # Errors
    /// The table is full or the kernel refuses: some of them are watched.
    pub fn watch(&mut self, devices: &BTreeSet<(HostDeviceKind, u32, u32)>) -> Result<(), EnforceError> {
        let wanted: BTreeSet<Numbers> =
            devices.iter().map(|(kind, major, minor)| (kind_of(*kind), *major, *minor)).collect();
        for device in self.watched.clone().difference(&wanted) {
            self.tables.remove_rule(key(WATCHED, *device))?;
            self.watched.remove(device);
        }
        for device in wanted {
            if !self.watched.contains(&device) {
                self.tables.set_rule(key(WATCHED, device), DEVICE_READ | DEVICE_WRITE)?;
                self.watched.insert(device);
            }
        }
        Ok(())
    }

    /// Enforces a policy on a pod from now on. Rules that are in both the old and the new policy apply at
    /// every moment.
    ///
    /// # Errors
    /// Its cgroup does not exist, or a table is full: the policy before it stays in force.
    pub fn guard(&mut self, uid: &str, cgroup: &str, policy: &PodPolicy) -> Result<(), EnforceError> {
        let mode = match policy.mode {
            Enforcement::Off => return self.release(uid),
            Enforcement::Audit => DEVICE_AUDIT,
            Enforcement::Enforce => DEVICE_ENFORCE,
        };
        if id_of(&self.root).ok() != Some(self.root_id) {
            return Err(EnforceError::RootReplaced { path: self.root.clone() });
        }
        let id = id_of(&join(&self.mount, cgroup))?;
        self.set_class(cgroup)?;
        let wanted = keys(&policy.rules);
        let any = wanted.keys().any(|(_, _, minor)| *minor == ANY_MINOR);
        let mode = mode | if any { DEVICE_HAS_ANY_MINOR } else { 0 };
        let mode = mode | if policy.scope == Scope::Watched { DEVICE_ONLY_WATCHED } else { 0 };
        let mut known = self.pods.remove(uid);
        if known.as_ref().is_some_and(|known| known.id != id) {
            // The cgroup was created again: the new one has another id in the tables.
            let old = known.take();
            old.map_or(Ok(()), |old| self.drop_pod(old))?;
        }
        let had = known.as_ref().map(|known| (known.rules.clone(), known.mode));
        let (rules, was) = had.unwrap_or_default();
        let mut now = known.unwrap_or(GuardedPod { id, mode: 0, rules: Rules::new() });
        let done = self.replace(&mut now, &wanted, mode);
        if done.is_err() && was == 0 {
            // It was not guarded before, so it is not guarded now either.
            let _ = self.drop_pod(now);
            return done;
        }
        if done.is_err() {
            let _ = self.replace(&mut now, &rules, was);
        }
        self.pods.insert(uid.to_owned(), now);
        done
    }

    /// Writes the id of the QoS class's cgroup for the program, if the pod's cgroup is in one.
    fn set_class(&mut self, pod: &str) -> Result<(), EnforceError> {
        let not_a_pod = || EnforceError::NotAPod { path: pod.to_owned(), kubepods: self.kubepods.clone() };
        let below = pod.strip_prefix(&self.kubepods).and_then(|below| below.strip_prefix('/'));
        let class = match below.ok_or_else(not_a_pod)?.split('/').collect::<Vec<_>>()[..] {
            [_] => return Ok(()),
            [class, _] => format!("{}/{class}", self.kubepods),
            _ => return Err(not_a_pod()),
        };
        let known = |known: &Option<(String, u64)>| known.as_ref().is_none_or(|(path, _)| *path == class);
        let index = self.classes.iter().position(known).ok_or_else(not_a_pod)?;
        let id = id_of(&join(&self.mount, &class))?;
        if self.classes[index].as_ref().is_none_or(|(_, known)| *known != id) {
            self.tables.set_class(index, id)?;
            self.classes[index] = Some((class, id));
        }
        Ok(())
    }

    /// Adds accesses, sets the mode, then removes accesses. `now` always matches the tables.
    fn replace(&mut self, now: &mut GuardedPod, wanted: &Rules, mode: u32) -> Result<(), EnforceError> {
        for (device, access) in wanted {
            let before = now.rules.get(device).copied();
            let both = access | before.unwrap_or(0);
            if before != Some(both) {
                self.tables.set_rule(key(now.id, *device), both)?;
                now.rules.insert(*device, both);
            }
        }
        if now.mode != mode {
            self.tables.set_pod(now.id, mode)?;
            now.mode = mode;
        }
        for (device, access) in now.rules.clone() {
            match wanted.get(&device) {
                None => {
                    self.tables.remove_rule(key(now.id, device))?;
                    now.rules.remove(&device);
                }
                Some(narrower) if *narrower != access => {
                    self.tables.set_rule(key(now.id, device), *narrower)?;
                    now.rules.insert(device, *narrower);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Lets a pod open everything, and removes its counts.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn release(&mut self, uid: &str) -> Result<(), EnforceError> {
        self.pods.remove(uid).map_or(Ok(()), |pod| self.drop_pod(pod))
    }

    fn drop_pod(&mut self, pod: GuardedPod) -> Result<(), EnforceError> {
        self.tables.release_pod(pod.id)?;
        for device in pod.rules.into_keys() {
            self.tables.remove_rule(key(pod.id, device))?;
        }
        Ok(self.tables.forget_counts(pod.id)?)
    }

    /// The program's counts, by pod and device.
    pub fn denials(&self) -> Vec<DenialCount> {
        let uids: HashMap<u64, &String> = self.pods.iter().map(|(uid, pod)| (pod.id, uid)).collect();
        let count = |(key, count): (DeviceKey, DeviceCount)| {
            let device = match key.kind {
                0 => "other".to_owned(),
                kind => device_name(kind, key.major, key.minor),
            };
            let uid = (*uids.get(&key.pod)?).clone();
            let (namespace, name) = Default::default();
            let DeviceCount { audited, denied, .. } = count;
            Some(DenialCount { uid, namespace, name, device, audited, denied })
        };
        let mut counts: Vec<DenialCount> = self.tables.counts().into_iter().filter_map(count).collect();
        counts.sort_by(|a, b| (&a.uid, &a.device).cmp(&(&b.uid, &b.device)));
        counts
    }

    /// Number of rules in the kernel, of all pods.
    #[cfg(test)]
    pub fn rules_in_kernel(&self) -> usize {
        self.tables.rules().len()
    }
}

/// The depth of a cgroup below the root of its hierarchy; `mount_root` is the part of the hierarchy that is
/// mounted.
fn level(mount_root: &str, path: &str) -> Result<u32, String> {
    let parts = || mount_root.split('/').chain(path.split('/')).filter(|part| !part.is_empty());
    if parts().any(|part| part == "..") {
        return Err(format!("the unified hierarchy is seen from a cgroup namespace ({mount_root})"));
    }
    u32::try_from(parts().count()).map_err(|e| e.to_string())
}

fn key(pod: u64, (kind, major, minor): Numbers) -> DeviceKey {
    DeviceKey { pod, kind, major, minor, pad: 0 }
}

fn kind_of(kind: HostDeviceKind) -> u32 {
    match kind {
        HostDeviceKind::Block => DEVICE_BLOCK,
        HostDeviceKind::Char => DEVICE_CHAR,
    }
}

fn keys(rules: &[DeviceRule]) -> Rules {
    let mut keys = Rules::new();
    for rule in rules {
        let kind = kind_of(rule.kind);
        *keys.entry((kind, rule.major, rule.minor.unwrap_or(ANY_MINOR))).or_default() |= rule.access.bits();
    }
    keys
}

/// The kernel id of a cgroup: its directory's inode number (kernfs).
fn id_of(dir: &Path) -> Result<u64, EnforceError> {
    let metadata = fs::metadata(dir).map_err(|source| EnforceError::Cgroup { path: dir.into(), source })?;
    Ok(metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_from_the_root_of_the_hierarchy() {
        for (mount_root, path, expected) in [
            ("/", "/kubepods", Some(1)),
            ("/", "/", Some(0)),
            ("/a", "/b/kubepods.slice", Some(3)),
            ("/..", "/kubepods", None),
        ] {
            assert_eq!(level(mount_root, path).ok(), expected, "{mount_root} {path}");
        }
    }
}
