//! What has to be true after a round: the API, the agent, the runtime and the kernel have the same pods, and
//! every restart has a cause in the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use nodewarden_proto::nodewarden::v1::event::Detail;
use nodewarden_proto::runtime::v1::{ContainerState, PodSandboxState};

use super::node::Node;
use crate::e2e::hierarchy::fixture::status;
use crate::e2e::pods::listed::ListedPod;
use crate::e2e::support::{eventually, since, was_interrupted};
use crate::fixture::{Client, mounts_below};
use crate::harness::Failure;
use crate::soak::evidence::{repeated, starts};

/// How long what is left of ended pods may take.
const SETTLES_S: u64 = 40;

/// Why containers were started again, by uid and container, as the journal has it.
#[derive(Debug)]
pub struct Causes {
    from: SystemTime,
    /// The agent ended it, or its start was interrupted, or it ended while the runtime was away.
    known: BTreeSet<(String, String)>,
    /// The entries of each pod, for the report of a failure.
    entries: BTreeMap<String, BTreeSet<String>>,
}

impl Causes {
    pub fn new(from: SystemTime) -> Self {
        Self { from, known: BTreeSet::new(), entries: BTreeMap::new() }
    }

    /// Reads what was added to the journal since the last time.
    pub fn read(&mut self, agent: &Client, patience: Duration) -> Result<(), Failure> {
        let now = SystemTime::now();
        let events = agent.watch(since(self.from, &["pod"]))?.collect(patience, 2 * patience, |_| true)?;
        // An event may be written a moment after it happened.
        self.from = now - Duration::from_secs(5);
        for received in events {
            let event = received.event;
            let (Some(pod), Some(Detail::PodNote(note))) = (event.pod, event.detail) else { continue };
            let seconds = event.time.map_or(0, |time| time.seconds);
            let entry = format!("{seconds} {}: {}: {:.100}", pod.container_name, note.reason, note.message);
            self.entries.entry(pod.uid.clone()).or_default().insert(entry);
            let unseen = note.message.contains("Unknown, exit code 255");
            if note.reason == "Killing" || was_interrupted(&note) || unseen {
                self.known.insert((pod.uid, pod.container_name));
            }
        }
        Ok(())
    }

    fn has(&self, uid: &str, container: &str) -> bool {
        self.known.contains(&(uid.to_owned(), container.to_owned()))
    }

    fn entries(&self, uid: &str) -> String {
        let entries = self.entries.get(uid).into_iter().flatten().cloned();
        entries.collect::<Vec<_>>().join("; ")
    }
}

/// Containers that were started again without a cause: by what the API showed, and by what the containers of
/// these apps wrote.
pub fn restarts_without_cause(node: &Node<'_>, apps: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (uid, name, container, count) in node.history.restarted() {
        if !node.causes.has(uid, container) {
            let entries = node.causes.entries(uid);
            found.push(format!("{name} {container} ({uid}) has {count} restarts without a cause: {entries}"));
        }
    }
    for app in apps {
        let text = fs::read_to_string(node.evidence.join(app)).unwrap_or_default();
        let wrong = repeated(&starts(&text), &|uid, container| node.causes.has(uid, container));
        found.extend(wrong.into_iter().map(|text| {
            let entries = node.causes.entries(text.split(' ').next().unwrap_or_default());
            format!("{app}: {text}: {entries}")
        }));
    }
    found
}

/// Waits until API, agent, runtime and kernel have the same pods, each with its container.
pub fn agreement(node: &mut Node<'_>) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    let limit = node.context.patiently(SETTLES_S);
    let agreed = eventually(limit, "", || {
        wrong = differences(node)?;
        Ok(wrong.is_empty().then_some(()))
    });
    agreed.map_err(|failure| Failure::Unexpected(format!("not the same pods{failure}: {}", wrong.join("; "))))
}

fn differences(node: &mut Node<'_>) -> Result<Vec<String>, Failure> {
    let uids = node.uids(None)?;
    let mut wrong = Vec::new();
    let agent = node.agent()?;
    let listed = ListedPod::list(&agent.get("/pods")?.text())?;
    compare("the agent's pods", listed.iter().map(|pod| pod.uid().to_owned()), &uids, &mut wrong);

    let uid = |labels: &std::collections::HashMap<String, String>| {
        labels.get("io.kubernetes.pod.uid").cloned().unwrap_or_default()
    };
    let ready: i32 = PodSandboxState::SandboxReady.into();
    let sandboxes = node.cri().list_sandboxes()?;
    let surplus = sandboxes.iter().map(|one| uid(&one.labels)).filter(|uid| !uids.contains(uid));
    wrong.extend(surplus.map(|uid| format!("a sandbox of {uid}, which is not at the API server")));
    let up = sandboxes.iter().filter(|one| one.state == ready).map(|one| uid(&one.labels));
    compare("sandboxes", up, &uids, &mut wrong);
    let running: i32 = ContainerState::ContainerRunning.into();
    let containers = node.cri().list_containers()?;
    let up = containers.iter().filter(|one| one.state == running).map(|one| uid(&one.labels));
    compare("running containers", up, &uids, &mut wrong);

    let hierarchy = status(agent)?;
    compare("cgroups", hierarchy.pods.iter().map(|pod| pod.uid.clone()), &uids, &mut wrong);
    wrong.extend(hierarchy.removing.iter().map(|pod| format!("cgroup {} is still being removed", pod.path)));
    let top = node.fixture.runs_by().managed()?.level("kubepods");
    for hierarchy in node.context.layout.hierarchies() {
        let mut found = Vec::new();
        pod_cgroups(&hierarchy.mount.join(top.trim_start_matches('/')), &mut found);
        let surplus = found.into_iter().filter(|uid| !uids.contains(uid));
        wrong.extend(surplus.map(|uid| format!("a cgroup of {uid} in {}", hierarchy.mount.display())));
    }

    let folder = agent.state().join("pods");
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        if !uids.contains(&*entry.file_name().to_string_lossy()) {
            wrong.push(format!("{} belongs to no pod", entry.path().display()));
        }
    }
    let of_a_pod = |path: &Path| {
        let first = path.strip_prefix(&folder).ok()?.iter().next()?.to_str()?;
        uids.contains(first).then_some(())
    };
    let mounts = mounts_below(&folder).into_iter().filter(|path| of_a_pod(path).is_none());
    wrong.extend(mounts.map(|path| format!("{} is mounted and belongs to no pod", path.display())));
    Ok(wrong)
}

/// Every uid exactly once.
fn compare(
    what: &str,
    found: impl Iterator<Item = String>,
    uids: &BTreeSet<String>,
    wrong: &mut Vec<String>,
) {
    let mut sorted: Vec<String> = found.collect();
    sorted.sort();
    if !sorted.iter().eq(uids.iter()) {
        let surplus: Vec<_> = sorted.iter().filter(|uid| !uids.contains(*uid)).collect();
        let missing: Vec<_> = uids.iter().filter(|uid| !sorted.contains(uid)).collect();
        wrong.push(format!(
            "{what}: {} for {} pods at the API server, surplus {surplus:?}, missing {missing:?}",
            sorted.len(),
            uids.len()
        ));
    }
}

/// The uids of the pods' cgroups below a directory.
fn pod_cgroups(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.strip_prefix("pod") {
            Some(uid) => found.push(uid.to_owned()),
            None => pod_cgroups(&entry.path(), found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_uid_has_to_be_there_once() {
        let uids: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let wrong = |found: &[&str]| {
            let mut wrong = Vec::new();
            compare("x", found.iter().map(|uid| (*uid).to_owned()), &uids, &mut wrong);
            wrong.len()
        };
        assert_eq!(wrong(&["b", "a"]), 0);
        assert_eq!((wrong(&["a"]), wrong(&["a", "b", "b"]), wrong(&["a", "c"])), (1, 1, 1));
    }

    #[test]
    fn cgroups_of_pods_are_found_on_every_level() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["burstable/podb/c", "poda", "besteffort"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let mut found = Vec::new();
        pod_cgroups(folder.path(), &mut found);
        found.sort();
        assert_eq!(found, ["a", "b"]);
    }
}
