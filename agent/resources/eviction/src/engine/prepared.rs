//! The pods that eviction would choose from, kept ready while a threshold is near: listing a thousand pods
//! and opening a file of each takes tens of milliseconds, reading a file that is open a microsecond.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use nodewarden_config::Signal;
use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::cgroup::control::KillTarget;
use tokio::sync::watch;

use super::shared::Shared;
use super::subjects::Subjects;
use super::victim::Candidates;
use crate::gather::{GroupMemory, Subject, is_of_container};

/// How old the list may be even if no change was reported: a pod's cgroup can follow its last change.
const OLD: Duration = Duration::from_secs(1);
/// While pods come and go they are listed at most so often, until a decision needs them.
const OFTEN: Duration = Duration::from_millis(50);
/// Time between two looks for the pod that would be killed.
const AIM: Duration = Duration::from_millis(20);

/// The pods and the memory files of their cgroups, in the same order.
#[derive(Debug, Default)]
pub struct Prepared {
    pub subjects: Vec<Subject>,
    /// `None` where no hierarchy has the memory controller.
    pub memory: Vec<Option<GroupMemory>>,
    /// The pod that a decision would have chosen a moment ago. Which one is killed is decided again then.
    pub target: Option<KillTarget>,
    changes: Option<watch::Receiver<()>>,
    listed: Option<Instant>,
    /// When the target is to be looked for again.
    aim_again: Option<Instant>,
}

impl Prepared {
    /// Lists the pods for a decision, unless it is known that none was added, changed or removed since they
    /// were listed. Files of pods that were listed before stay open.
    pub fn refresh(&mut self, pods: &dyn Subjects, layout: &Layout) {
        if !self.is_older_than(OLD) && self.is_changed() == Some(false) {
            return;
        }
        let changes = self.changes.get_or_insert_with(|| pods.any_change().unwrap_or_else(never));
        // Before the list, so that a change meanwhile is noticed.
        changes.mark_unchanged();
        self.listed = Some(Instant::now());
        let before = std::mem::take(&mut self.subjects).into_iter().map(|subject| subject.cgroup);
        let mut known: HashMap<String, Option<GroupMemory>> = before.zip(self.memory.drain(..)).collect();
        self.subjects = pods.pods();
        let memory = |subject: &Subject| match known.remove(&subject.cgroup) {
            Some(known) => known,
            None => GroupMemory::of(layout, &subject.cgroup),
        };
        self.memory = self.subjects.iter().map(memory).collect();
    }

    /// Lists the pods and opens their files ahead of a decision.
    pub fn prepare(&mut self, pods: &dyn Subjects, layout: &Layout) {
        if self.is_older_than(OLD) || (self.is_older_than(OFTEN) && self.is_changed() == Some(true)) {
            self.refresh(pods, layout);
        }
        let mut buffer = Vec::new();
        for memory in self.memory.iter_mut().flatten().filter(|memory| !memory.is_open()) {
            // A cgroup that is gone has no usage now and in the decision.
            let _ = memory.read_usage(&mut buffer);
        }
    }

    /// Opens what it takes to kill the pod that a hard threshold of memory would have chosen now. Looks for
    /// it each [`AIM`], or less often where that would take more than a twentieth of the time. Has the code
    /// of a decision in the memory and the caches of the CPU besides.
    pub fn aim(&mut self, shared: &Shared) {
        let begun = Instant::now();
        if self.aim_again.is_some_and(|at| begun < at) {
            return;
        }
        let Self { subjects, memory, .. } = self;
        let mut candidates = Candidates::read(shared, Signal::MemoryAvailable, true, subjects, memory);
        self.target = candidates.choose(|_| None).and_then(|at| {
            let Subject { cgroup, containers, .. } = subjects.get(at)?;
            let is_known = |name: &str| containers.iter().any(|(_, id)| is_of_container(name, id));
            KillTarget::open(&shared.files, cgroup, |name| !is_known(name))
        });
        self.aim_again = Some(begun + AIM.max(begun.elapsed() * 20));
    }

    fn is_older_than(&self, age: Duration) -> bool {
        self.listed.is_none_or(|at| at.elapsed() >= age)
    }

    /// Whether a change was reported since the list; `None` where changes are not reported.
    fn is_changed(&self) -> Option<bool> {
        self.changes.as_ref()?.has_changed().ok()
    }
}

/// Of pods whose changes are not reported.
fn never() -> watch::Receiver<()> {
    watch::channel(()).1
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use jiff::Timestamp;
    use nodewarden_machine::cgroup::fixture::TestTree;
    use nodewarden_manifest::Pod;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    struct Pods {
        cgroups: Mutex<Vec<String>>,
        changes: Option<watch::Sender<()>>,
        listed: Mutex<usize>,
    }

    impl Pods {
        fn new(changes: Option<watch::Sender<()>>) -> Self {
            Self { cgroups: Mutex::default(), changes, listed: Mutex::default() }
        }

        fn set(&self, cgroups: &[&String]) {
            *self.cgroups.lock() = cgroups.iter().map(|path| (*path).clone()).collect();
            if let Some(changes) = &self.changes {
                changes.send_replace(());
            }
        }
    }

    impl Subjects for Pods {
        fn pods(&self) -> Vec<Subject> {
            *self.listed.lock() += 1;
            let pod = json!({"metadata": {"name": "p", "uid": "p"},
                "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let pod = Arc::new(Pod::unchecked(serde_json::from_value(pod).unwrap()).unwrap());
            let subject = |cgroup: &String| Subject {
                pod: pod.clone(),
                cgroup: cgroup.clone(),
                started: Timestamp::UNIX_EPOCH,
                pod_dir: PathBuf::new(),
                logs: PathBuf::new(),
                containers: Vec::new(),
            };
            self.cgroups.lock().iter().map(subject).collect()
        }

        fn leaving(&self) -> Vec<String> {
            Vec::new()
        }

        fn any_change(&self) -> Option<watch::Receiver<()>> {
            self.changes.as_ref().map(watch::Sender::subscribe)
        }
    }

    fn open(prepared: &Prepared) -> Vec<bool> {
        let is_open = |memory: &Option<GroupMemory>| memory.as_ref().is_some_and(GroupMemory::is_open);
        prepared.memory.iter().map(is_open).collect()
    }

    #[test]
    fn pods_are_listed_after_a_change_and_their_files_stay_open() {
        let Some(tree) = TestTree::make("prepared") else { return };
        let [a, b, c] = ["a", "b", "c"].map(|name| tree.group(name));
        let pods = Pods::new(Some(watch::Sender::new(())));
        pods.set(&[&a, &b]);
        let (mut prepared, begun) = (Prepared::default(), Instant::now());
        for _ in 0..3 {
            prepared.prepare(&pods, &tree.layout);
            prepared.refresh(&pods, &tree.layout);
            assert_eq!(open(&prepared), [true, true]);
        }
        let looks = *pods.listed.lock();
        assert!(looks == 1 || begun.elapsed() >= OLD, "listed {looks} times");
        pods.set(&[&c, &b]);
        prepared.refresh(&pods, &tree.layout);
        assert_eq!(open(&prepared), [false, true]);
        let listed: Vec<&String> = prepared.subjects.iter().map(|subject| &subject.cgroup).collect();
        assert_eq!(listed, [&c, &b]);
    }

    #[test]
    fn where_changes_are_not_reported_each_decision_lists_the_pods() {
        let Some(tree) = TestTree::make("prepared-unknown") else { return };
        let pods = Pods::new(None);
        let (mut prepared, begun) = (Prepared::default(), Instant::now());
        for _ in 0..3 {
            prepared.prepare(&pods, &tree.layout);
        }
        let looks = *pods.listed.lock();
        assert!(looks == 1 || begun.elapsed() >= OLD, "listed {looks} times");
        for n in 1..4 {
            prepared.refresh(&pods, &tree.layout);
            assert_eq!(*pods.listed.lock(), looks + n);
        }
    }
}
