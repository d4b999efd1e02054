use std::fs::File;
use std::os::fd::AsRawFd;

use nodewarden_storage::journal::Limits;
use nodewarden_testing::HungFuse;

use super::*;

/// FS_IMMUTABLE_FL of linux/fs.h.
const IMMUTABLE: libc::c_int = 0x10;

/// A file that cannot be removed, until this is dropped.
pub(crate) struct Immutable(PathBuf);

impl Immutable {
    /// Makes the file and those above it; `None` where the file system has no such flag.
    pub(crate) fn make(path: &Path) -> Option<Self> {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
        let this = Self(path.to_owned());
        if set_flags(path, IMMUTABLE) {
            return Some(this);
        }
        nodewarden_testing::skip("the file system has no immutable files");
        None
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        // Where it is now.
        for path in [self.0.clone()].into_iter().chain(found(&self.0)) {
            if path.exists() {
                set_flags(&path, 0);
            }
        }
    }
}

/// The file below `orphaned`, of a path `<state>/pods/<uid>/<rest>`.
fn found(path: &Path) -> Vec<PathBuf> {
    let pods = path.ancestors().find(|above| above.ends_with("pods")).unwrap();
    let rest: PathBuf = path.strip_prefix(pods).unwrap().components().skip(1).collect();
    let moved = fs::read_dir(pods.with_file_name(NAME)).into_iter().flatten().flatten();
    moved.map(|entry| entry.path().join(&rest)).collect()
}

fn set_flags(path: &Path, flags: libc::c_int) -> bool {
    let file = File::open(path).unwrap();
    // SAFETY: the ioctl reads one int from a valid pointer.
    unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) == 0 }
}

impl SetAside {
    /// A removal of this pod's directory that does not return until the result is dropped.
    pub(crate) fn removal_that_hangs(&self, uid: &str) -> impl Sized + use<> {
        UnderWay::new(&self.0.under_way, &self.0.pods_dir.join(uid))
    }
}

fn open(dir: &Path) -> SetAside {
    let journal = Journal::open(&dir.join("journal"), Limits::default()).unwrap();
    SetAside::with_patience(&dir.join("pods"), &journal, Duration::from_millis(100))
}

fn later() -> Instant {
    Instant::now() + Duration::from_secs(7200)
}

#[tokio::test]
async fn what_cannot_be_removed_is_moved_and_removed_when_it_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let pod_dir = dir.path().join("pods/u");
    let Some(immutable) = Immutable::make(&pod_dir.join("volumes/a/file")) else { return };
    let set_aside = open(dir.path());
    let problem = set_aside.clean(pod_dir.clone(), TRY).await.unwrap_err();
    assert!(problem.contains("Operation not permitted"), "{problem}");
    let path = set_aside.put("u", problem.clone()).await;
    assert!(path.starts_with(dir.path().join(NAME)) && path.is_dir() && !pod_dir.exists(), "{path:?}");
    assert_eq!(set_aside.shown(), [(path.clone(), problem.clone())]);
    assert!(!set_aside.holds("u"), "a pod of that uid has a directory of its own");
    set_aside.try_due(Instant::now()).await;
    set_aside.try_due(later()).await;
    assert_eq!(set_aside.shown().len(), 1);

    drop(set_aside);
    let next = open(dir.path());
    assert_eq!(next.shown()[0].0, path, "the next agent knows it");
    drop(immutable);
    next.try_due(later()).await;
    assert!(next.shown().is_empty() && !path.exists(), "{:?}", next.shown());
}

#[tokio::test]
async fn what_cannot_be_moved_is_left_to_the_next_pod_of_the_uid() {
    let dir = tempfile::tempdir().unwrap();
    let pod_dir = dir.path().join("pods/u");
    fs::create_dir_all(&pod_dir).unwrap();
    // Nothing can be moved there.
    fs::write(dir.path().join(NAME), "").unwrap();
    let set_aside = open(dir.path());
    assert_eq!(set_aside.put("u", "stays".into()).await, pod_dir);
    assert!(set_aside.holds("u") && !set_aside.holds("v"));
    set_aside.try_due(later()).await;
    assert!(set_aside.holds("u") && pod_dir.is_dir());
    set_aside.reuse("u");
    assert!(set_aside.shown().is_empty());
    fs::remove_file(dir.path().join(NAME)).unwrap();
    set_aside.try_due(later()).await;
    assert!(pod_dir.is_dir(), "a pod uses it");

    set_aside.put("u", "stays".into()).await;
    set_aside.try_due(later()).await;
    assert!(set_aside.shown().is_empty() && !pod_dir.exists(), "{:?}", set_aside.shown());
}

/// Asynchronous tasks ask which directories are set aside, and pods start, while a move does not return.
#[tokio::test]
async fn a_move_that_hangs_delays_neither_questions_nor_other_pods() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
    let set_aside = SetAside::with_patience(&state.join("pods"), &journal, TRY);
    let Ok(fuse) = HungFuse::mount(&state) else {
        nodewarden_testing::skip("no FUSE file system can be mounted here");
        return;
    };
    let own = set_aside.clone();
    let put = tokio::spawn(async move { own.put("u", "stays".into()).await });
    let begun = Instant::now();
    while blocking::POD_FILES.busy() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(5), "the move begins");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (answers, answered) = std::sync::mpsc::channel();
    let own = set_aside.clone();
    std::thread::spawn(move || {
        own.reuse("v");
        let _ = answers.send((own.holds("u"), own.has("u"), own.shown().len()));
    });
    let answer = answered.recv_timeout(Duration::from_secs(5));
    drop(fuse);
    assert_eq!(answer, Ok((false, false, 0)));
    put.await.unwrap();
    assert!(set_aside.holds("u"), "it could not be moved");
}

/// A removal goes by the path, and one that hangs goes on when the file system answers again: with the files
/// of the next pod of that uid, if it had started.
#[tokio::test]
async fn a_pod_waits_until_no_removal_of_its_directory_is_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    fs::create_dir(&state).unwrap();
    let short = Duration::from_millis(100);
    let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
    let set_aside = SetAside::with_patience(&state.join("pods"), &journal, short);
    let Ok(fuse) = HungFuse::mount(&state) else {
        nodewarden_testing::skip("no FUSE file system can be mounted here");
        return;
    };
    set_aside.unused("u", short).await.unwrap();
    // The second one does not begin before the first one has returned.
    for _ in 0..2 {
        let problem = set_aside.clean(state.join("pods/u"), short).await.unwrap_err();
        assert!(problem.contains("is not removed within"), "{problem}");
    }
    let problem = set_aside.unused("u", short).await.unwrap_err().to_string();
    assert!(problem.ends_with("pods/u of an earlier pod with this uid is still being removed"), "{problem}");
    set_aside.unused("v", short).await.unwrap();
    let waits = set_aside.clone();
    let waits = tokio::spawn(async move { waits.unused("u", TRY).await.is_ok() });
    tokio::time::sleep(short).await;
    assert!(!waits.is_finished());
    drop(fuse);
    let waited = tokio::time::timeout(Duration::from_secs(10), waits).await;
    assert!(waited.unwrap().unwrap(), "it has returned");
}
