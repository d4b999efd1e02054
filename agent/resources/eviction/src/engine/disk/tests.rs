//! The whole watch of disks, with a runtime that accepts connections and never answers.

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nodewarden_config::{Endpoint, EvictionTexts, parse_thresholds};
use nodewarden_cri::Client;
use nodewarden_gc::{Disk, FsError, Holds};
use nodewarden_manifest::fixture;
use nodewarden_model::{FsUse, GcSettings};
use nodewarden_pods::paths::empty_dir;
use nodewarden_pods::spec::Ownership;
use nodewarden_pods::status::{DesiredPods, PodStatusCache};
use nodewarden_storage::journal::{Journal, Limits};
use nodewarden_tasks::parts::Parts;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::*;
use crate::Pressure;
use crate::engine::fixture::v2_layout;
use crate::engine::{Deps, RestoredState, Subjects};
use crate::gather::Subject;
use crate::history::History;

const CAPACITY: u64 = 1000 << 20;
/// The longest time from the first reading that shows the shortage to the eviction: two steps of the reclaim
/// are cut off, and the figures of layers are waited for.
const IN_TIME: Duration = Duration::from_secs(60);

/// The node's file system, with so many bytes available.
#[derive(Clone)]
struct Available(Arc<AtomicU64>);

impl Disk for Available {
    fn read(&self, path: &Path) -> Result<FsUse, FsError> {
        Ok(FsUse {
            path: path.to_owned(),
            device: 1,
            capacity: CAPACITY,
            available: self.0.load(Ordering::Relaxed),
            inodes: 1000,
            inodes_free: 900,
            ..FsUse::default()
        })
    }
}

/// Two pods with a volume each.
struct Two(PathBuf);

impl Subjects for Two {
    fn pods(&self) -> Vec<Subject> {
        let subject = |uid: &str| {
            let spec = json!({
                "containers": [{"name": "c", "image": "i"}],
                "volumes": [{"name": "data", "emptyDir": {}}],
            });
            let mut pod = fixture::pod(spec);
            let own = Arc::make_mut(&mut pod);
            (own.uid, own.name) = (uid.to_owned(), uid.to_owned());
            Subject {
                pod,
                cgroup: format!("/nodewarden-test-none/{uid}"),
                started: Timestamp::UNIX_EPOCH,
                pod_dir: self.0.join("pods").join(uid),
                logs: self.0.join("logs").join(uid),
                containers: Vec::new(),
            }
        };
        ["small", "large"].map(subject).into()
    }

    fn leaving(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A runtime at which nothing listens to what is sent.
fn hung(dir: &Path) -> (UnixListener, Client) {
    let socket = dir.join("cri.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    (listener, Client::new(&Endpoint::parse(&socket.to_string_lossy()).unwrap()))
}

fn collector(dir: &Path, journal: &Journal, runtime: Client, disk: Available) -> Collector {
    let board = PodStatusCache::default();
    board.set_desired(DesiredPods { complete: true, ..DesiredPods::default() });
    let deps = nodewarden_gc::Deps {
        runtime: Arc::new(runtime),
        list: None,
        disk: Arc::new(disk),
        state_dir: dir.to_owned(),
        root_dir: dir.to_owned(),
        logs_dir: dir.join("logs"),
        journal: journal.clone(),
        board,
        ownership: Ownership::new("me".into(), false),
        holds: Holds::default(),
        acts: true,
    };
    Collector::new(&GcSettings::default(), deps)
}

/// The clock is the test's: it goes on to the next time that something waits for.
#[tokio::test(start_paused = true)]
async fn with_a_runtime_that_hangs_disks_are_judged_and_the_largest_pod_is_evicted_in_time() {
    let dir = tempfile::tempdir().unwrap();
    for (uid, bytes) in [("small", 10_000), ("large", 5_000_000)] {
        let volume = empty_dir(&dir.path().join("pods").join(uid), "data");
        std::fs::create_dir_all(&volume).unwrap();
        std::fs::write(volume.join("file"), vec![1; bytes]).unwrap();
    }
    let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
    let (_listener, runtime) = hung(dir.path());
    let available = Available(Arc::new(AtomicU64::new(CAPACITY / 2)));
    let collector = collector(dir.path(), &journal, runtime.clone(), available.clone());
    let hard = [("nodefs.available".to_owned(), "10%".to_owned())].into();
    let texts = EvictionTexts { hard, ..EvictionTexts::default() };
    let (evicting, mut evicted) = mpsc::unbounded_channel();
    let (pressure, mut pressed) = watch::channel(Pressure::default());
    let deps = Deps {
        settings: EvictionSettings {
            thresholds: parse_thresholds(&texts, false).unwrap(),
            ..EvictionSettings::default()
        },
        layout: v2_layout(),
        kubepods: "/nodewarden-test-none".to_owned(),
        subjects: Box::new(Two(dir.path().to_owned())),
        collector: Some(collector.clone()),
        runtime: Some(runtime),
        evict: Some(Box::new(move |uid, _| evicting.send(uid.to_owned()).unwrap())),
        beside: None,
        history: History::open(dir.path()).0,
        journal,
        pressure,
    };
    let shared = Arc::new(Shared::new(deps, RestoredState::open(dir.path())));
    let (own, part) = (shared.clone(), Parts::default().register("disk eviction", IN_TIME));
    let begun = tokio::time::Instant::now();
    let watch = tokio::spawn(part.task_with(move |pulse| run(own, collector, pulse)));

    let seen = || shared.seen.lock().get(&Group::Disk).cloned().unwrap_or_default();
    while seen().is_empty() {
        tokio::time::sleep(LOOK).await;
    }
    assert!(begun.elapsed() < CALM, "{:?}", begun.elapsed());
    let nodefs = seen().into_iter().find(|seen| seen.signal == "nodefs.available").unwrap();
    assert_eq!((nodefs.available, nodefs.capacity), (CAPACITY / 2, CAPACITY));

    available.0.store(CAPACITY / 20, Ordering::Relaxed);
    let short = tokio::time::Instant::now();
    let disk = |pressure: &Pressure| pressure.has(NodeCondition::DiskPressure);
    timeout(CALM + SHORT, pressed.wait_for(disk)).await.expect("the condition comes in time").unwrap();
    let victim = timeout(IN_TIME, evicted.recv()).await.expect("a pod is evicted in time");
    assert_eq!(victim.as_deref(), Some("large"), "after {:?}", short.elapsed());
    watch.abort();
}
