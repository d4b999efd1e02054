//! Reads what [`decide::shrink`](crate::decide::shrink) needs to know of a pod's memory limits.

use std::fs;

use crate::decide::shrink::{MemoryChange, refused};
use crate::state::PodState;
use nodewarden_machine::cgroup::Controller;
use nodewarden_machine::cgroup::control::{Bound, Consumption, GroupFiles};
use nodewarden_manifest::names::MEMORY;
use nodewarden_qos as qos;
use nodewarden_tasks::blocking;

/// Why the memory limit of the container `id`, named `name`, cannot be set to `wanted` bytes (0: unchanged)
/// now, or that of its pod afterwards; `None` if it can.
pub async fn why_not(state: &PodState, id: &str, name: &str, wanted: i64) -> Option<String> {
    let to = u64::try_from(wanted).ok().filter(|bytes| *bytes > 0);
    let (env, pod) = (state.env.clone(), state.pod());
    let capacity = env.capacity();
    let pod_to = bytes(qos::pod::limits(&pod, env.node(&capacity)).memory_max);
    let above = env.places.borrow().get(&pod.uid).map(|place| place.path.clone());
    let files = env.cgroups.clone();
    let own = id.to_owned();
    let found = blocking::CGROUPS.run(move || above.map(|above| read(&files, &above, &own))).await;
    // A panic in there is a fault of ours: nothing is known then.
    let (of_pod, of_container) = found.ok().flatten().unwrap_or_default();
    // Without `cgroupsPerQOS` the containers are there, and a pod has no cgroup of its own.
    let of_pod = of_pod.filter(|_| env.settings.cgroups_per_qos);
    let of_container = of_container.unwrap_or_else(|| Memory { limit: given(state, name), used: None });
    let change =
        |container, found: Memory, to| MemoryChange { container, from: found.limit, to, used: found.used };
    let changes = of_pod.map(|found| change(None, found, pod_to));
    refused(&changes.into_iter().chain([change(Some(name), of_container, to)]).collect::<Vec<_>>())
}

/// A cgroup's memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Memory {
    /// `None`: no limit.
    limit: Option<u64>,
    /// `None`: it cannot be read.
    used: Option<u64>,
}

/// The memory of the cgroup `path` and of the container `id` right below it; `None` for one that is not
/// there.
fn read(files: &GroupFiles, path: &str, id: &str) -> (Option<Memory>, Option<Memory>) {
    let path = path.trim_end_matches('/');
    let memory = |path: &str| {
        files.directory(Controller::Memory, path).filter(|dir| dir.is_dir())?;
        let limit = bytes(files.read(path).ok()?.memory_max);
        let used = Consumption::read(files, path).ok().and_then(|found| found.memory_bytes);
        Some(Memory { limit, used })
    };
    let below = files.directory(Controller::Memory, path).and_then(|dir| fs::read_dir(dir).ok());
    let mut names =
        below.into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    // Runtimes put more into the name than the id.
    let own = names.find(|name| name.contains(id)).map(|name| format!("{path}/{name}"));
    (memory(path), own.and_then(|own| memory(&own)))
}

fn bytes(limit: Option<Bound>) -> Option<u64> {
    match limit {
        Some(Bound::At(bytes)) => Some(bytes),
        Some(Bound::Max) | None => None,
    }
}

/// The limit that the runtime was last given for the container.
fn given(state: &PodState, name: &str) -> Option<u64> {
    let inner = state.read();
    let given = inner.record.container(name)?.given.as_ref()?;
    u64::try_from(given.limits.get(MEMORY)?.value()).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use nodewarden_machine::cgroup::control::{Cgroupfs, Limits, Manager};
    use nodewarden_machine::cgroup::fixture::TestTree;

    #[test]
    fn limit_and_use_are_those_of_the_pod_and_its_container() {
        let Some(tree) = TestTree::make("shrink") else { return };
        if tree.layout.hierarchy(Controller::Memory).is_none() {
            nodewarden_testing::skip("there is no memory controller");
            return;
        }
        let pod = tree.group("pod");
        let id = "c0".repeat(32);
        let container = tree.group(&format!("pod/cri-containerd-{id}.scope"));
        let manager = Manager::new(Arc::new(Cgroupfs::new(tree.layout.clone())), tree.layout.clone());
        let limits = Limits { memory_max: Some(Bound::At(64 << 20)), ..Limits::default() };
        manager.set(&container, &limits).unwrap();
        // A shell and its variable.
        let fill = "x=$(head -c 8000000 /dev/zero | tr '\\0' x); echo full > /dev/null; sleep 600";
        tree.run(&format!("pod/cri-containerd-{id}.scope"), fill);
        let files = GroupFiles::new(tree.layout.clone());
        let mut last = None;
        for _ in 0..1000 {
            last = Some(read(&files, &pod, &id));
            let used = |memory: Option<Memory>| memory.and_then(|memory| memory.used);
            let (of_pod, own) = last.map(|(of_pod, own)| (used(of_pod), used(own))).unwrap_or_default();
            // The pod is read first: it may show less while the container grows.
            if own > Some(8_000_000) && of_pod >= own {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let (of_pod, own) = last.unwrap();
        let (of_pod, own) = (of_pod.unwrap(), own.unwrap());
        assert_eq!((of_pod.limit, own.limit), (None, Some(64 << 20)));
        assert!(own.used > Some(8_000_000) && of_pod.used >= own.used, "{of_pod:?} {own:?}");
        assert_eq!(read(&files, &pod, &"d0".repeat(32)).1, None);
        assert_eq!(read(&files, "/nowhere/at/all", &id), (None, None));
    }
}
