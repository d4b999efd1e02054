//! Holds what the kernel has seen written against mode augment's table of who writes which file
//! (`agent/resources/augment/src/table.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nodewarden_augment::table::{NOTIFIERS, permit, writer};
use nodewarden_augment::wanted::Level;

use crate::fixture::Writers;

/// The files whose text the kernel changes when a cgroup becomes idle. They are the kubelet's, and mode
/// augment puts its value back when the cgroup no longer is.
pub const OF_IDLE: [&str; 3] = ["cpu.shares", "cpu.weight", "cpu.weight.nice"];

/// The writes to cgroups of pods and of their levels that the table does not have: by another program, of a
/// file that no other program writes, and by the agent, of one that is not its own.
pub fn differences(files: &BTreeMap<PathBuf, Writers>) -> Vec<String> {
    let mut all = Vec::new();
    for (path, writers) in files {
        let Some((level, file)) = place(path) else { continue };
        if NOTIFIERS.contains(&file) {
            continue;
        }
        if let (Some(other), None) = (&writers.other, writer(level, file)) {
            all.push(format!("{} was written by {other}", path.display()));
        }
        if writers.own && permit(level, file).is_err() && !OF_IDLE.contains(&file) {
            all.push(format!("{} was written by the agent", path.display()));
        }
    }
    all
}

/// Which level of cgroup a file belongs to, and its name; `None` outside of the pods' cgroups.
fn place(path: &Path) -> Option<(Level, &str)> {
    let file = path.file_name()?.to_str()?;
    let directories: Vec<&str> = path.parent()?.iter().filter_map(|name| name.to_str()).collect();
    let top = directories.iter().position(|name| is_of_pods(name))?;
    let pod = directories.iter().skip(top).position(|name| is_pod(name));
    let level = match pod {
        None => Level::Qos,
        Some(at) if top + at + 1 == directories.len() => Level::Pod,
        Some(_) => Level::Container,
    };
    Some((level, file))
}

/// `kubepods`, or with systemd `kubepods.slice`.
fn is_of_pods(name: &str) -> bool {
    name == "kubepods" || name == "kubepods.slice"
}

/// `podUID`, or with systemd `kubepods-podUID.slice`, `kubepods-burstable-podUID.slice`.
fn is_pod(name: &str) -> bool {
    let last = name.strip_suffix(".slice").and_then(|stem| stem.rsplit('-').next());
    last.unwrap_or(name).strip_prefix("pod").is_some_and(|uid| uid.len() >= 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0a0a0a0a-1111-4222-8333-444444444444";

    #[test]
    fn levels_of_both_drivers() {
        let slice = format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
        for (path, expected) in [
            ("/c/cpu/t/kubepods/cpu.shares".to_owned(), Some(Level::Qos)),
            ("/c/cpu/t/kubepods/burstable/cpu.shares".to_owned(), Some(Level::Qos)),
            (format!("/c/cpu/t/kubepods/burstable/pod{UID}/cpu.shares"), Some(Level::Pod)),
            (format!("/c/cpu/t/kubepods/pod{UID}/0123/cpu.shares"), Some(Level::Container)),
            (format!("/c/kubepods.slice/kubepods-burstable.slice/{slice}/cpu.max"), Some(Level::Pod)),
            (format!("/c/kubepods.slice/x.slice/{slice}/cri-containerd-0.scope/x"), Some(Level::Container)),
            ("/c/kubepods.slice/kubepods-burstable.slice/cpu.max".to_owned(), Some(Level::Qos)),
            ("/c/system.slice/cpu.max".to_owned(), None),
        ] {
            assert_eq!(place(Path::new(&path)).map(|(level, _)| level), expected, "{path}");
        }
    }

    #[test]
    fn what_the_table_does_not_have_is_found() {
        let of = |file: &str| PathBuf::from(format!("/c/cpu/kubepods/pod{UID}/{file}"));
        let by = |own, other: bool| Writers { own, other: other.then(|| "kubelet (pid 1)".to_owned()) };
        for (file, writers, count) in [
            ("cpu.shares", by(false, true), 0),
            ("cpu.shares", by(true, true), 0),
            ("cpu.idle", by(true, false), 0),
            ("cpu.idle", by(false, true), 1),
            ("cpu.max", by(true, false), 1),
            ("memory.pressure", by(true, false), 0),
            ("memory.unknown", by(true, true), 2),
        ] {
            let found = differences(&BTreeMap::from([(of(file), writers.clone())]));
            assert_eq!(found.len(), count, "{file} {writers:?}: {found:?}");
        }
    }
}
