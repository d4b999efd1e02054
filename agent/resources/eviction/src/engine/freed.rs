//! The waits after an eviction for a disk: until the pod's files and containers are removed and the file
//! system shows the freed space.
//!
//! The next pod is chosen after them. Each ends too early if it goes by the clock alone: a slow runtime may
//! take longer for one call than a file system takes to free everything.

use std::path::PathBuf;
use std::time::Duration;

use nodewarden_gc::GcError;
use nodewarden_pods::volume;
use nodewarden_tasks::blocking;
use tokio::time::Instant;

/// Longest wait for an evicted pod's files to be removed (kubelet: podCleanupTimeout).
pub const GONE: Duration = Duration::from_secs(30);
/// Longest wait for the file system to show the freed space.
pub const SPACE: Duration = Duration::from_secs(60);
/// Longest wait for the runtime to remove the pod's containers, and with them their writable layers. Evicting
/// another pod does not help meanwhile: its layers could not be removed either.
pub const REMOVED: Duration = Duration::from_secs(120);
/// Time between two checks.
pub const LOOK: Duration = Duration::from_millis(50);
/// Longest wait for the file system to show what was freed before this agent started, which is a kubelet's
/// time between two looks at its thresholds (`monitoringInterval`).
pub const EARLIER: Duration = Duration::from_secs(10);
/// Longest wait for the file system to show what came free with dead containers. It is not known how much
/// that is.
pub const LAYERS: Duration = Duration::from_secs(10);
/// The wait for freed space ends when so many readings in a row show no more than the one before them: 3 s
/// with a runtime that answers at once.
const STILL: u32 = 60;

/// How much of an evicted pod's space is available again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Back {
    /// Other pods have used so much since the eviction that the next one must not wait.
    Shrunk,
    /// None, or so little that other pods may have freed it.
    Nothing,
    /// A part of it.
    Part,
    /// All, or as much as is needed.
    Enough,
}

/// Waits until the pod is `leaving` no more and its directory has no volumes, for at most `limit`.
pub async fn files_gone(pod_dir: Option<PathBuf>, leaving: impl Fn() -> bool, limit: Duration) {
    let gone = async {
        while leaving() || has_volumes(pod_dir.clone()).await {
            tokio::time::sleep(LOOK).await;
        }
    };
    // An error: it takes longer.
    let _ = tokio::time::timeout(limit, gone).await;
}

/// Waits until the runtime has none of the pod's containers, as `remaining` counts them, for at most `limit`
/// and one call. Returns why it ended before that.
pub async fn containers_gone<F>(remaining: impl Fn() -> F, limit: Duration) -> Option<String>
where
    F: Future<Output = Result<usize, GcError>>,
{
    let began = Instant::now();
    loop {
        let problem = match remaining().await {
            Ok(0) => return None,
            Ok(left) => format!("the runtime still has {left} of its containers"),
            Err(error) => error.to_string(),
        };
        if began.elapsed() >= limit {
            return Some(problem);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until `back` says of what is available that it is enough or shrinks; or that a part of it is back
/// and no more comes for [`STILL`] readings; for at most `limit` and one reading. Returns what was available
/// last.
///
/// While nothing is back another eviction would not help either: containerd deletes the layers of removed
/// containers in its garbage collection, which rests after each run for 49 times as long as its runs take
/// on average (`pause_threshold`: 2 %), many seconds on a busy machine. A file system frees large files
/// gradually after that.
pub async fn space_back<F>(available: impl Fn() -> F, back: impl Fn(u64) -> Back, limit: Duration) -> u64
where
    F: Future<Output = Option<u64>>,
{
    let began = Instant::now();
    let (mut last, mut most, mut still) = (0, 0, 0);
    loop {
        if let Some(seen) = available().await {
            last = seen;
            if matches!(back(seen), Back::Enough | Back::Shrunk) {
                return seen;
            }
        }
        (most, still) = if last > most { (last, 0) } else { (most, still + 1) };
        let is_over = still >= STILL && back(most) == Back::Part;
        if is_over || began.elapsed() >= limit {
            return last;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Whether the directory has volumes, read on a thread for pods' files: removing them may keep it busy.
async fn has_volumes(pod_dir: Option<PathBuf>) -> bool {
    let Some(pod_dir) = pod_dir else { return false };
    blocking::POD_FILES.run(move || volume::has_volumes(&pod_dir)).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use nodewarden_testing::HungFuse;

    use super::*;

    /// The test has one thread for everything asynchronous: if that thread read the directory, it would hang
    /// until the file system ends by itself, and fail.
    #[tokio::test]
    async fn a_pod_directory_that_hangs_holds_no_thread_of_the_async_runtime() {
        let dir = tempfile::tempdir().unwrap();
        let Ok(fuse) = HungFuse::mount(dir.path()) else {
            nodewarden_testing::skip("no FUSE file system can be mounted here");
            return;
        };
        let limit = Duration::from_millis(300);
        let mut beats = 0;
        let begun = Instant::now();
        let pod_dir = Some(dir.path().join("pod"));
        let beat = async {
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                beats += 1;
            }
        };
        tokio::select! {
            () = files_gone(pod_dir, || false, limit) => {}
            () = beat => {}
        }
        assert!(begun.elapsed() >= limit, "{:?}", begun.elapsed());
        assert!(beats >= 5, "others ran meanwhile: {beats}");
        drop(fuse);
    }

    #[tokio::test]
    async fn the_wait_ends_with_the_last_volume_and_the_pods_end() {
        let dir = tempfile::tempdir().unwrap();
        let volume = dir.path().join("volumes/kubernetes.io~empty-dir/v");
        fs::create_dir_all(&volume).unwrap();
        let short = Duration::from_millis(200);
        let wait = |leaving: bool, limit| {
            let (begun, pod_dir) = (Instant::now(), Some(dir.path().to_owned()));
            async move {
                files_gone(pod_dir, || leaving, limit).await;
                begun.elapsed()
            }
        };
        assert!(wait(false, short).await >= short, "it has a volume");
        fs::remove_dir(&volume).unwrap();
        assert!(wait(true, short).await >= short, "it has not ended");
        assert!(wait(false, GONE).await < GONE / 2);
    }

    /// Removing a layer takes a slow runtime several calls of seconds: the wait must not end in between.
    #[tokio::test(start_paused = true)]
    async fn the_wait_lasts_until_a_slow_runtime_has_removed_the_containers() {
        let calls = std::cell::Cell::new(0);
        let slow = async || {
            tokio::time::sleep(Duration::from_secs(5)).await;
            calls.set(calls.get() + 1);
            Ok(usize::from(calls.get() < 8))
        };
        assert_eq!(containers_gone(slow, REMOVED).await, None);
        assert_eq!(calls.get(), 8);
    }

    #[tokio::test]
    async fn the_wait_for_containers_is_bounded_and_says_why_it_ended() {
        let limit = Duration::from_millis(120);
        let problem = containers_gone(async || Ok(2), limit).await;
        assert_eq!(problem.as_deref(), Some("the runtime still has 2 of its containers"));
    }

    /// One reading takes longer than the file system needs to free everything.
    #[tokio::test(start_paused = true)]
    async fn slow_readings_do_not_end_the_wait_for_space() {
        let readings = std::cell::Cell::new(0_u64);
        let slow = async || {
            tokio::time::sleep(Duration::from_secs(5)).await;
            readings.set(readings.get() + 1);
            Some(if readings.get() < 4 { 10 } else { 90 })
        };
        let back = |available| if available >= 80 { Back::Enough } else { Back::Part };
        assert_eq!(space_back(slow, back, SPACE).await, 90);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_space_ends_when_no_more_comes() {
        let readings = std::cell::Cell::new(0_u64);
        let read = async || {
            readings.set(readings.get() + 1);
            Some(readings.get().min(7))
        };
        let back = |available| if available >= 7 { Back::Part } else { Back::Nothing };
        assert_eq!(space_back(read, back, SPACE).await, 7);
        assert_eq!(readings.get(), 7 + u64::from(STILL));
    }

    /// A removed layer whose space comes back only after twenty seconds, while other pods use more and more.
    #[tokio::test(start_paused = true)]
    async fn the_wait_goes_on_while_none_of_the_space_is_back() {
        let back = |available| match available {
            ..50 => Back::Shrunk,
            50..140 => Back::Nothing,
            140..170 => Back::Part,
            _ => Back::Enough,
        };
        let began = Instant::now();
        let late = async || {
            let seconds = began.elapsed().as_secs();
            Some(if seconds < 20 { 100 - seconds } else { 160 })
        };
        assert_eq!(space_back(late, back, SPACE).await, 160);
        assert!((22..26).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        let began = Instant::now();
        assert_eq!(space_back(async || Some(90), back, SPACE).await, 90);
        assert_eq!(began.elapsed().as_secs(), SPACE.as_secs(), "it never comes back");
        let began = Instant::now();
        let shrinking = async || Some(100 - 10 * began.elapsed().as_secs());
        assert_eq!(space_back(shrinking, back, SPACE).await, 40);
        assert_eq!(began.elapsed().as_secs(), 6, "others fill the disk");
    }
}
