//! Permits for calls to the runtime of which not all should be under way at once.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::Semaphore;

/// Makes the call once there is a permit. A call that takes longer than `longest` releases its permit and
/// continues without one, so that a container that ignores its signal, or a runtime that hangs for one pod,
/// does not delay the others.
pub async fn with_permit<T>(permits: &Semaphore, longest: Duration, call: impl Future<Output = T>) -> T {
    // Never closed.
    let permit = permits.acquire().await.ok();
    let mut call = pin!(call);
    match tokio::time::timeout(longest, &mut call).await {
        Ok(done) => done,
        Err(_) => {
            drop(permit);
            call.await
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_so_many_calls_run_at_a_time_and_a_slow_one_delays_no_other() {
        let permits = Semaphore::new(2);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let call = |time: u64| {
            let (now, most) = (&now, &most);
            with_permit(&permits, Duration::from_millis(250), async move {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(time)).await;
                now.fetch_sub(1, Ordering::Relaxed);
            })
        };
        let begun = tokio::time::Instant::now();
        join_all([100, 100, 100, 100].map(call)).await;
        assert_eq!((most.load(Ordering::Relaxed), begun.elapsed().as_millis()), (2, 200));
        // Two that hang keep the third waiting for as long as their permits are theirs.
        let begun = tokio::time::Instant::now();
        let third = async {
            call(1).await;
            begun.elapsed().as_millis()
        };
        let (_, _, waited) = tokio::join!(call(60_000), call(60_000), third);
        assert_eq!(waited, 251);
    }
}
