//! What there is of pods in the runtime, the cgroup tree, the directory of volumes and the mount table; and
//! logind's inhibitors.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::AGENT;
use crate::fixture::{Cri, inhibitors, longest_shutdown_delay, mounts_below, systemctl};
use nodewarden_guest_job::{NOTES, NodeState};

const RUNTIME: &str = "/run/containerd/containerd.sock";
const CGROUPS: &str = "/sys/fs/cgroup/kubepods.slice";
/// The pods' directories below that of a kubelet.
const VOLUMES: &str = "/var/lib/kubelet/pods";
/// The label of sandboxes and containers with the uid of their pod.
const UID_LABEL: &str = "io.kubernetes.pod.uid";

/// Reads all of it; what cannot be read is left out.
pub fn read() -> NodeState {
    let mut state = NodeState {
        agent: systemctl(&["show", "--property=ActiveState", "--value", AGENT])
            .map_or_else(|error| error.to_string(), |text| text.trim().to_owned()),
        volumes: names(Path::new(VOLUMES)).collect(),
        mounts: mounts_below(Path::new(VOLUMES)).iter().filter_map(|path| below_volumes(path)).collect(),
        inhibitors: inhibitors().unwrap_or_default(),
        delay_micros: longest_shutdown_delay().ok(),
        notes: fs::read_to_string(Path::new(NOTES[0]).join(NOTES[1]))
            .map(|text| text.lines().map(str::to_owned).collect())
            .unwrap_or_default(),
        ..NodeState::default()
    };
    cgroups(Path::new(CGROUPS), &mut state.cgroups);
    if let Ok(cri) = Cri::connect(Path::new(RUNTIME)) {
        let sandboxes = cri.list_sandboxes().unwrap_or_default();
        state.sandboxes = sandboxes.into_iter().filter_map(|mut one| one.labels.remove(UID_LABEL)).collect();
        let containers = cri.list_containers().unwrap_or_default();
        state.containers =
            containers.into_iter().filter_map(|mut one| one.labels.remove(UID_LABEL)).collect();
    }
    state
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

fn below_volumes(path: &Path) -> Option<String> {
    let first = path.strip_prefix(VOLUMES).ok()?.components().next()?;
    Some(first.as_os_str().to_string_lossy().into_owned())
}

/// Collects the uids in the names of pods' slices in `folder` and one level below:
/// `kubepods-burstable-podUID.slice`.
fn cgroups(folder: &Path, found: &mut BTreeSet<String>) {
    for name in names(folder).filter(|name| name.ends_with(".slice")) {
        match uid_of_slice(&name) {
            Some(uid) => drop(found.insert(uid)),
            None => cgroups(&folder.join(name), found),
        }
    }
}

fn uid_of_slice(name: &str) -> Option<String> {
    let (_, uid) = name.strip_suffix(".slice")?.rsplit_once("-pod")?;
    Some(uid.replace('_', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_pods_have_their_uid() {
        assert_eq!(uid_of_slice("kubepods-burstable-pod3f1d_9c.slice").as_deref(), Some("3f1d-9c"));
        assert_eq!(uid_of_slice("kubepods-pod3f1d_9c.slice").as_deref(), Some("3f1d-9c"));
        assert_eq!(uid_of_slice("kubepods-burstable.slice"), None);
        assert_eq!(below_volumes(Path::new("/var/lib/kubelet/pods/u/volumes/x")).as_deref(), Some("u"));
    }
}
