//! The settings of a pod's cgroups, and how they differ from those of the same pod without nodewarden.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::e2e::augment::fixture::settings_below;
use crate::e2e::cluster::written::OF_IDLE;
use crate::fixture::Layout;
use crate::harness::Failure;

/// The text of each setting, by the cgroup's place in the pod and the name of the file:
/// `pod/cpu.shares`, `main/cpu.cfs_quota_us`.
pub type Values = BTreeMap<String, String>;

/// The files that mode augment may write.
const OWN: [&str; 5] = ["cpu.idle", "cpu.max.burst", "cpu.cfs_burst_us", "memory.high", "memory.min"];

/// The settings of all cgroups of a pod, below `root` in each hierarchy.
///
/// # Errors
/// A file cannot be read.
pub fn of_pod(layout: &Layout, root: &str, pod: &Value) -> Result<Values, Failure> {
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let statuses = pod["status"]["containerStatuses"].as_array();
    let containers: BTreeMap<&str, &str> = statuses
        .into_iter()
        .flatten()
        .filter_map(|status| {
            let (_, id) = status["containerID"].as_str()?.split_once("://")?;
            Some((id, status["name"].as_str()?))
        })
        .collect();
    let mut all = Values::new();
    for hierarchy in layout.hierarchies() {
        let top = hierarchy.mount.join(root.trim_start_matches('/'));
        let Some(directory) = find(&top, &format!("pod{uid}")) else { continue };
        let mut files = BTreeMap::new();
        settings_below(&directory, &mut files)?;
        for (path, text) in files {
            let below = path.strip_prefix(&directory).unwrap_or(&path);
            let file = below.file_name().unwrap_or_default().to_string_lossy();
            let place = match below.parent().and_then(Path::to_str).unwrap_or_default() {
                "" => "pod",
                group => containers.get(group).copied().unwrap_or("sandbox"),
            };
            all.insert(format!("{place}/{file}"), text);
        }
    }
    Ok(all)
}

/// The directory of this name below `top`.
fn find(top: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(top).ok()?.flatten();
    let below: Vec<PathBuf> =
        entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()).collect();
    let own = below.iter().find(|path| path.ends_with(name)).cloned();
    own.or_else(|| below.iter().find_map(|path| find(path, name)))
}

/// `memory.min` of each unit of systemd (cgroup v2): mode augment protects the daemons of the node by it.
///
/// # Errors
/// A directory cannot be read.
pub fn of_units(layout: &Layout) -> Result<Values, Failure> {
    let Some(unified) = layout.controller("memory").filter(|hierarchy| hierarchy.v2) else {
        return Ok(Values::new());
    };
    let slice = unified.mount.join("system.slice");
    let mut files = BTreeMap::new();
    if slice.is_dir() {
        settings_below(&slice, &mut files)?;
    }
    let of_memory = files.into_iter().filter(|(path, _)| path.ends_with("memory.min"));
    Ok(of_memory.map(|(path, text)| (path.display().to_string(), text)).collect())
}

/// The file of this name in a pod's own cgroup, in the hierarchy that has one.
pub fn file_of_pod(layout: &Layout, root: &str, pod: &Value, file: &str) -> Option<PathBuf> {
    let uid = pod["metadata"]["uid"].as_str()?;
    let tops = layout.hierarchies().iter().map(|own| own.mount.join(root.trim_start_matches('/')));
    let mut files = tops.filter_map(|top| Some(find(&top, &format!("pod{uid}"))?.join(file)));
    files.find(|file| file.exists())
}

/// The file of a difference that a kubelet may have caused that ended while it made the pod's cgroup: the
/// next one takes the cgroup as it is (kubelet 1.20: `podContainerManagerImpl.EnsureExists`).
pub fn perhaps_never_set(key: &str) -> Option<&str> {
    key.strip_prefix("pod/").filter(|file| !OWN.contains(file) && !OF_IDLE.contains(file))
}

/// What differs from the settings without nodewarden: of all files, or with `beside` of those that mode
/// augment may not write. Returns the setting, and it with both texts.
pub fn differences(without: &Values, now: &Values, beside: bool) -> Vec<(String, String)> {
    let is_idle = |place: &str| now.get(&format!("{place}/cpu.idle")).is_some_and(|text| text == "1");
    let is_own = |key: &str| {
        let (place, file) = key.split_once('/').unwrap_or(("", key));
        OWN.contains(&file) || OF_IDLE.contains(&file) && is_idle(place)
    };
    let keys = without.keys().chain(now.keys().filter(|key| !without.contains_key(*key)));
    let differing = keys.filter(|key| without.get(*key) != now.get(*key) && !(beside && is_own(key)));
    let with_texts = |key: &String| format!("{key}: {:?} -> {:?}", without.get(key), now.get(key));
    differing.map(|key| (key.clone(), with_texts(key))).collect()
}

/// Whether a pod has what mode augment gives one of this kind.
pub fn is_written(values: &Values, is_idle: bool, has_quota: bool) -> bool {
    let text = |key: &str| values.get(key).map(String::as_str);
    let burst = ["cpu.max.burst", "cpu.cfs_burst_us"];
    let bursts = burst.iter().filter_map(|file| text(&format!("pod/{file}"))).any(|text| text != "0");
    (text("pod/cpu.idle") == Some("1")) == is_idle && bursts == has_quota
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn only_own_files_may_differ_beside_a_kubelet() {
        let without =
            values(&[("pod/cpu.shares", "2"), ("pod/cpu.idle", "0"), ("pod/cpu.cfs_burst_us", "0")]);
        let of = |shares, idle, burst| {
            values(&[("pod/cpu.shares", shares), ("pod/cpu.idle", idle), ("pod/cpu.cfs_burst_us", burst)])
        };
        for (now, beside, after) in [
            (of("2", "0", "0"), 0, 0),
            (of("3", "1", "9"), 0, 3),
            (of("3", "0", "0"), 1, 1),
            (of("2", "0", "9"), 0, 1),
        ] {
            assert_eq!(differences(&without, &now, true).len(), beside, "{now:?}");
            assert_eq!(differences(&without, &now, false).len(), after, "{now:?}");
        }
        let gone = values(&[("pod/cpu.shares", "2"), ("pod/cpu.idle", "0")]);
        assert_eq!(differences(&without, &gone, false).len(), 1, "a file that is gone");
        assert_eq!(differences(&gone, &without, false).len(), 1, "a file that was not there");
    }

    #[test]
    fn a_killed_kubelet_is_no_excuse_for_what_the_agent_writes() {
        assert_eq!(perhaps_never_set("pod/hugetlb.2MB.max"), Some("hugetlb.2MB.max"));
        for key in ["main/hugetlb.2MB.max", "pod/cpu.idle", "pod/cpu.weight", "pod/memory.high"] {
            assert_eq!(perhaps_never_set(key), None, "{key}");
        }
    }

    #[test]
    fn what_is_expected_of_each_kind() {
        let idle = values(&[("pod/cpu.idle", "1"), ("pod/cpu.cfs_burst_us", "0")]);
        let burst = values(&[("pod/cpu.idle", "0"), ("pod/cpu.max.burst", "500")]);
        assert!(is_written(&idle, true, false) && is_written(&burst, false, true));
        assert!(!is_written(&idle, false, false) && !is_written(&burst, false, false));
        assert!(!is_written(&values(&[]), true, false) && is_written(&values(&[]), false, false));
    }
}
