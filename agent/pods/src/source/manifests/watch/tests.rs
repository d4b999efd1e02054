use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::*;
use crate::source::manifests::ManifestSource;
use crate::source::{PodSource, SourceGuard};

fn manifest(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
    )
}

/// A directory that is watched, with no relist that a test could live to see.
struct Fixture {
    dir: tempfile::TempDir,
    received: Receiver<Desired>,
    _watching: SourceGuard,
}

impl Fixture {
    fn new() -> Self {
        Self::with(|_| {}, |_| {})
    }

    fn with(before: impl FnOnce(&Path), mut told_also: impl FnMut(&Desired) + Send + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let manifests = dir.path().join("manifests");
        fs::create_dir(&manifests).unwrap();
        before(&manifests);
        let mut source = Box::new(ManifestSource::new(&manifests, "node", Duration::from_secs(600)));
        source.snapshot();
        let (sender, received) = channel();
        let watching = source.follow(Box::new(move |desired| {
            told_also(&desired);
            let _ = sender.send(desired);
        }));
        // What is made before the directory is watched is seen by the first listing, all the same.
        Self { dir, received, _watching: watching.unwrap() }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join("manifests").join(file)
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    fn next(&self) -> Desired {
        self.received.recv_timeout(Duration::from_secs(10)).unwrap()
    }

    fn names(&self) -> Vec<String> {
        self.next().pods.iter().map(|p| p.pod.name.clone()).collect()
    }

    /// Nothing is sent for this long.
    fn silent(&self, time: Duration) {
        match self.received.recv_timeout(time) {
            Err(RecvTimeoutError::Timeout) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// A watcher that stops when this pod is the only one for the first time, until something is sent.
fn held_at(name: &'static str) -> (Fixture, Sender<()>) {
    let (go, gone) = channel();
    let mut gone = Some(gone);
    let received = move |desired: &Desired| {
        if desired.pods.len() == 1
            && desired.pods[0].pod.name == name
            && let Some(gone) = gone.take()
        {
            let _ = gone.recv();
        }
    };
    (Fixture::with(|_| {}, received), go)
}

#[test]
fn each_change_is_sent() {
    let f = Fixture::new();
    f.write("a.yaml", &manifest("a"));
    assert_eq!(f.names(), ["a"]);
    f.write(".b.yaml.swp", &manifest("b"));
    fs::rename(f.path(".b.yaml.swp"), f.path("b.yaml")).unwrap();
    assert_eq!(f.names(), ["a", "b"]);
    fs::rename(f.path("a.yaml"), f.path(".a.yaml")).unwrap();
    assert_eq!(f.names(), ["b"]);
    std::os::unix::fs::symlink(f.path(".a.yaml"), f.path("link.yaml")).unwrap();
    assert_eq!(f.names(), ["b", "a"]);
    fs::remove_file(f.path("b.yaml")).unwrap();
    assert_eq!(f.names(), ["a"]);
    fs::hard_link(f.path(".a.yaml"), f.path("b.yaml")).unwrap();
    // Of two files with one pod the one that was there first wins.
    let desired = f.next();
    assert!(
        desired.pods[0].origin.to_string().ends_with("/link.yaml") && desired.problems.len() == 1,
        "{desired:?}"
    );
}

fn watcher(dir: &Path, relist: Duration) -> Watcher {
    Watcher {
        manifests: Manifests::new(dir, "node"),
        relist,
        events: EventQueue::new().unwrap(),
        watched: None,
        is_local: false,
        changes: Changes::default(),
        listed: None,
        last: Desired::default(),
        send: Box::new(|_| {}),
    }
}

#[test]
fn a_directory_is_looked_at_each_minute_only_while_every_change_of_it_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let period = Duration::from_secs(20);
    let mut watcher = watcher(dir.path(), period);
    assert!(watcher.read() && watcher.manifests.is_reported());
    let listed = watcher.listed.unwrap();
    assert!(listed.minute > listed.at);
    let again = |watcher: &Watcher| watcher.relist_at().unwrap();
    watcher.is_local = false;
    assert_eq!(again(&watcher), listed.at + period, "another machine may write");
    watcher.is_local = true;
    assert_eq!(again(&watcher), listed.minute.max(listed.at + period));
    fs::write(dir.path().join("a.yaml"), manifest("a")).unwrap();
    assert!(watcher.read());
    assert_eq!(again(&watcher), listed.at + period, "it is not known yet whether that is a link");
    watcher.watched = None;
    assert_eq!(again(&watcher), listed.at + MISSING, "nothing is reported");
}

/// The events of such a file are consumed with those of the others: no other event will come.
#[test]
fn a_file_written_while_others_are_read_is_not_left_until_the_next_listing() {
    let dir = tempfile::tempdir().unwrap();
    let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).unwrap();
    let mut watcher = watcher(dir.path(), Duration::from_secs(600));
    assert!(watcher.read() && watcher.watched.is_some());
    fs::write(dir.path().join("a.yaml"), manifest("a")).unwrap();
    watcher.take_events();
    // Ends the wait after a second if nothing else does.
    let late = Arc::new(stop);
    let stopping = late.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(1));
        stopping.write(1)
    });
    assert!(watcher.wait(&late), "woken only by the end of the test");
    assert!(watcher.read());
    assert_eq!(watcher.manifests.desired().pods.len(), 1);
}

#[test]
fn a_file_that_is_being_written_is_read_when_it_is_closed() {
    let f = Fixture::new();
    f.write("a.yaml", &manifest("a"));
    assert_eq!(f.names(), ["a"]);
    let text = format!("{}---\n{}", manifest("a"), manifest("b"));
    let (first, second) = text.split_at(text.len() / 2);
    // Truncated at first, and then half of it.
    let mut file = File::create(f.path("a.yaml")).unwrap();
    file.write_all(first.as_bytes()).unwrap();
    f.silent(Duration::from_millis(300));
    file.write_all(second.as_bytes()).unwrap();
    f.silent(Duration::from_millis(50));
    drop(file);
    assert_eq!(f.names(), ["a", "b"]);
    assert!(f.received.try_recv().is_err());
}

#[test]
fn a_file_that_stays_open_and_half_written_is_reported() {
    let f = Fixture::new();
    f.write("a.yaml", &manifest("a"));
    assert_eq!(f.names(), ["a"]);
    let text = manifest("a");
    let mut file = File::create(f.path("a.yaml")).unwrap();
    let started = Instant::now();
    file.write_all(&text.as_bytes()[..text.len() - 10]).unwrap();
    let desired = f.next();
    assert!(started.elapsed() >= Duration::from_millis(900), "{:?}", started.elapsed());
    assert_eq!((desired.pods.len(), desired.problems.len()), (1, 1), "{desired:?}");
    file.write_all(&text.as_bytes()[text.len() - 10..]).unwrap();
    drop(file);
    assert_eq!(f.next().problems, []);
}

/// Everything that has happened by the time of a read is one change.
#[test]
fn a_burst_is_one_change() {
    let (f, go) = held_at("first");
    // Whole from the first on: the directory may be listed for the first time while a file is being written,
    // before it is watched.
    fs::write(f.dir.path().join("aside"), manifest("first")).unwrap();
    fs::rename(f.dir.path().join("aside"), f.path("first.yaml")).unwrap();
    thread::sleep(Duration::from_millis(100));
    for i in 0..100 {
        f.write(&format!("{i}.yaml"), &manifest(&format!("p{i}")));
    }
    go.send(()).unwrap();
    assert_eq!(f.names(), ["first"]);
    assert_eq!(f.next().pods.len(), 101);
    for i in 0..100 {
        fs::remove_file(f.path(&format!("{i}.yaml"))).unwrap();
    }
    while f.next().pods.len() > 1 {}
}

#[test]
fn a_directory_that_vanishes_takes_no_pod_with_it() {
    let f = Fixture::with(|dir| fs::write(dir.join("a.yaml"), manifest("a")).unwrap(), |_| {});
    let (manifests, aside) = (f.path(""), f.dir.path().join("aside"));
    fs::rename(&manifests, &aside).unwrap();
    let desired = f.next();
    assert!(desired.unread.may_have(&"/any".into()) && desired.pods.len() == 1, "{desired:?}");
    // Another one in its place, with another pod.
    fs::create_dir(&manifests).unwrap();
    f.write("b.yaml", &manifest("b"));
    assert_eq!(f.names(), ["b"]);
    // The old one is no longer watched; the new one is.
    fs::remove_file(aside.join("a.yaml")).unwrap();
    fs::write(aside.join("b.yaml"), "").unwrap();
    f.write("c.yaml", &manifest("c"));
    assert_eq!(f.names(), ["b", "c"]);
    fs::remove_dir_all(&manifests).unwrap();
    let mut desired = f.next();
    while !desired.unread.may_have(&"/any".into()) {
        // Its files went first, one by one.
        desired = f.next();
    }
}

/// What is mounted into a container as a volume is swapped by renaming a link that all files lead through.
#[test]
fn a_swapped_volume_is_read_whole() {
    let f = Fixture::with(
        |dir| {
            for (version, pod) in [("..1", "old"), ("..2", "new")] {
                fs::create_dir(dir.join(version)).unwrap();
                fs::write(dir.join(version).join("a.yaml"), manifest(pod)).unwrap();
            }
            std::os::unix::fs::symlink("..1", dir.join("..data")).unwrap();
            std::os::unix::fs::symlink("..data/a.yaml", dir.join("a.yaml")).unwrap();
        },
        |_| {},
    );
    std::os::unix::fs::symlink("..2", f.path("..data_tmp")).unwrap();
    fs::rename(f.path("..data_tmp"), f.path("..data")).unwrap();
    assert_eq!(f.names(), ["new"]);
}

/// The kernel drops events when the reader is too slow (fs.inotify.max_queued_events): then everything is
/// read again.
#[test]
fn lost_events_lose_no_file() {
    let most: usize =
        fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let (f, go) = held_at("first");
    f.write("first.yaml", &manifest("first"));
    thread::sleep(Duration::from_millis(100));
    let (a, b) = (f.path("x"), f.path("y"));
    fs::write(&a, manifest("moved")).unwrap();
    for _ in 0..=most / 4 {
        fs::rename(&a, &b).unwrap();
        fs::rename(&b, &a).unwrap();
    }
    f.write("last.yaml", &manifest("last"));
    fs::remove_file(f.path("first.yaml")).unwrap();
    go.send(()).unwrap();
    assert_eq!(f.names(), ["first"]);
    let mut names = f.names();
    while names != ["last", "moved"] {
        names = f.names();
    }
}

/// Says how long it takes from the end of a write to the word: `cargo test -- --ignored --nocapture
/// speed_of_the_source`.
#[test]
#[ignore = "measures"]
fn speed_of_the_source() {
    let f = Fixture::with(
        |dir| {
            for i in 0..100 {
                fs::write(dir.join(format!("{i}.yaml")), manifest(&format!("p{i}"))).unwrap();
            }
        },
        |_| {},
    );
    thread::sleep(Duration::from_millis(200));
    let mut took: Vec<Duration> = Vec::new();
    for i in 0..200 {
        f.write(".new", &manifest(&format!("new{i}")));
        let started = Instant::now();
        match i % 2 {
            0 => fs::rename(f.path(".new"), f.path("new.yaml")).unwrap(),
            _ => f.write("new.yaml", &manifest(&format!("new{i}"))),
        }
        let desired = f.next();
        took.push(started.elapsed());
        assert_eq!(desired.pods.len(), 101);
        thread::sleep(Duration::from_millis(5));
    }
    took.sort();
    println!("from the end of a write to the word: p50 {:?}, p99 {:?}", took[100], took[198]);
}
