//! A second source, in memory, together with the manifest directory.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;

use super::manifests::ManifestSource;
use super::*;
use crate::status::{PodStatusCache, StatusChanges};

/// Imitates the API server of a cluster.
#[derive(Debug, Clone, Default)]
struct Memory(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    desired: Desired,
    changes: Option<DesiredSender>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.desired.fmt(f)
    }
}

impl Memory {
    fn set(&self, desired: Desired) {
        let Shared { desired: own, changes } = &mut *self.0.lock();
        own.clone_from(&desired);
        if let Some(changes) = changes {
            changes(desired);
        }
    }
}

impl PodSource for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn set_running(&mut self, _running: &PodOrigins) {}

    fn snapshot(&mut self) -> Desired {
        self.0.lock().desired.clone()
    }

    fn follow(self: Box<Self>, changes: DesiredSender) -> io::Result<SourceGuard> {
        self.0.lock().changes = Some(changes);
        let shared = self.0.clone();
        Ok(Box::new(scopeguard(move || shared.lock().changes = None)))
    }
}

/// Calls the function when it is dropped.
fn scopeguard(end: impl FnMut() + Send) -> impl Send {
    struct Guard<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Guard<F> {
        fn drop(&mut self) {
            self.0();
        }
    }
    Guard(end)
}

fn manifest(name: &str, uid: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: \"{uid}\"}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
    )
}

fn sourced(name: &str, uid: &str) -> SourcedPod {
    let pod = nodewarden_manifest::manifest::parse(&manifest(name, uid)).remove(0).unwrap();
    SourcedPod::new(Arc::new(pod), format!("memory:default/{name}"))
}

fn desired(pods: Vec<SourcedPod>) -> Desired {
    Desired { pods: pods.into(), ..Desired::default() }
}

/// A manifest directory and a source in memory.
struct Fixture {
    dir: tempfile::TempDir,
    memory: Memory,
    status: PodStatusCache,
    /// The memory source's channel back.
    reported: StatusChanges,
    first: Desired,
    changes: Receiver<Desired>,
    following: Following,
}

impl Fixture {
    fn start(first: Vec<SourcedPod>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.yaml"), manifest("a", "1")).unwrap();
        let memory = Memory::default();
        memory.set(desired(first));
        let status = PodStatusCache::default();
        let mut sources = PodSources::new(vec![
            Box::new(ManifestSource::new(dir.path(), "node", Duration::from_secs(600))),
            Box::new(memory.clone()),
        ]);
        sources.set_running(PodOrigins::default());
        let first = sources.snapshot();
        let (sender, changes) = channel();
        let following = sources.follow(Box::new(move |desired| drop(sender.send(desired)))).unwrap();
        let reported = status.subscribe();
        Self { dir, memory, status, reported, first, changes, following }
    }

    fn next(&self) -> Desired {
        self.changes.recv_timeout(Duration::from_secs(10)).unwrap()
    }
}

fn names(desired: &Desired) -> Vec<&str> {
    desired.pods.iter().map(|sourced| sourced.pod.name.as_str()).collect()
}

#[test]
fn two_sources_are_followed_as_one() {
    let f = Fixture::start(vec![sourced("b", "2")]);
    assert_eq!(names(&f.first), ["a", "b"]);
    f.memory.set(desired(vec![sourced("b", "2"), sourced("c", "3")]));
    assert_eq!(names(&f.next()), ["a", "b", "c"]);
    // A name that runs from memory is not taken over by a manifest.
    fs::write(f.dir.path().join("b.yaml"), manifest("b", "9")).unwrap();
    let both = f.next();
    assert_eq!((names(&both), both.problems.len()), (vec!["a", "b", "c"], 1));
    assert_eq!(both.pods[1].origin, "memory:default/b".into());
    // A source that cannot be read keeps its own pods and does not affect those of others.
    let unread = Desired { unread: Unread::of_source("memory"), ..desired(Vec::new()) };
    f.memory.set(unread);
    let merged = f.next();
    assert!(!merged.is_complete() && merged.unread.may_have(&"memory:default/c".into()));
    assert!(!merged.unread.may_have(&f.dir.path().join("gone.yaml").display().to_string().into()));
    drop(f.following);
    f.memory.set(desired(Vec::new()));
    assert!(f.changes.recv().is_err(), "nothing is sent any more");
}

#[test]
fn a_deletion_is_passed_on_with_its_grace_and_reason() {
    let f = Fixture::start(vec![sourced("b", "2")]);
    let deletion = Deletion {
        since: jiff::Timestamp::UNIX_EPOCH,
        grace: Duration::from_secs(5),
        reason: "deleted by a user".into(),
    };
    let deleted = SourcedPod { deletion: Some(Box::new(deletion.clone())), ..sourced("b", "2") };
    f.memory.set(desired(vec![deleted]));
    assert_eq!(f.next().pods[1].deletion, Some(Box::new(deletion)));
}

#[test]
fn a_source_reads_the_status_of_its_pods_back() {
    let mut f = Fixture::start(vec![sourced("b", "2")]);
    f.status.set(crate::status::fixture::view("2", nodewarden_model::PodPhase::Running));
    let change = f.reported.next().now_or_never().unwrap();
    assert_eq!((change.uid.as_str(), change.status.unwrap().phase.name()), ("2", "Running"));
}
