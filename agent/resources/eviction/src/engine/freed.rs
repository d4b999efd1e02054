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

/// Longest wait for an evicted pod's files to be removed (kubelet: podCleanupTimeout), and for the file
/// system to show the freed space.
pub const GONE: Duration = Duration::from_secs(30);
/// Longest wait for the runtime to remove the pod's containers, and with them their writable layers. Evicting
/// another pod does not help meanwhile: its layers could not be removed either.
pub const REMOVED: Duration = Duration::from_secs(120);
/// Time between two checks.
pub const LOOK: Duration = Duration::from_millis(50);
/// The wait for freed space ends when so many readings in a row show no more than the one before them: 3 s
/// with a runtime that answers at once.
const STILL: u32 = 60;
/// It lasts at least so long while none of the pod's space is back: on a busy machine a removed layer takes
/// seconds until its space is free. A kubelet looks at its thresholds no more often (`monitoringInterval`).
const UNSEEN: Duration = Duration::from_secs(10);

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

/// Waits until `is_enough` is available, or no more has become available for [`STILL`] readings, for at most
/// `limit` and one reading. `is_part`: with so much available, some of the pod's space is back; before that
/// it waits [`UNSEEN`]. Returns what was available last. A file system frees large files gradually after
/// their removal.
pub async fn space_back<F>(
    available: impl Fn() -> F,
    is_enough: impl Fn(u64) -> bool,
    is_part: impl Fn(u64) -> bool,
    limit: Duration,
) -> u64
where
    F: Future<Output = Option<u64>>,
{
    let began = Instant::now();
    let (mut last, mut most, mut still) = (0, 0, 0);
    loop {
        if let Some(seen) = available().await {
            last = seen;
            if is_enough(seen) {
                return seen;
            }
        }
        (most, still) = if last > most { (last, 0) } else { (most, still + 1) };
        let is_over = still >= STILL && (is_part(most) || began.elapsed() >= UNSEEN);
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
        assert_eq!(space_back(slow, |available| available >= 80, |_| true, GONE).await, 90);
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_for_space_ends_when_no_more_comes() {
        let readings = std::cell::Cell::new(0_u64);
        let read = async || {
            readings.set(readings.get() + 1);
            Some(readings.get().min(7))
        };
        assert_eq!(space_back(read, |_| false, |available| available >= 7, GONE).await, 7);
        assert_eq!(readings.get(), 7 + u64::from(STILL));
    }

    /// A removed layer whose space comes back only after six seconds, while other pods use more and more.
    #[tokio::test(start_paused = true)]
    async fn the_wait_goes_on_while_none_of_the_space_is_back() {
        let began = Instant::now();
        let late = async || {
            let seconds = began.elapsed().as_secs();
            Some(if seconds < 6 { 100 - seconds } else { 160 })
        };
        assert_eq!(
            space_back(late, |available| available >= 170, |available| available >= 140, GONE).await,
            160
        );
        assert!((8..12).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        let began = Instant::now();
        assert_eq!(space_back(async || Some(90), |_| false, |available| available >= 140, GONE).await, 90);
        assert_eq!(began.elapsed().as_secs(), UNSEEN.as_secs(), "it never comes back");
    }
}
