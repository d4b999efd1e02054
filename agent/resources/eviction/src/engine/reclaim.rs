//! A bound for the reclaim of containers and images: a runtime that hangs must not keep a pod from being
//! evicted.

use std::pin::pin;
use std::time::Duration;

/// A step of the reclaim is cut off when it removed nothing for this time. A runtime removes a container or
/// an image within a few seconds; one call may take two minutes until it fails, a step makes several, and the
/// threshold stays met meanwhile.
pub const LIMIT: Duration = Duration::from_secs(15);

/// The step removed nothing for [`LIMIT`]. The next step of that kind completes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cut off: nothing was removed for {} s", LIMIT.as_secs())]
pub struct CutOff;

/// The result of a step, which may take as long as it removes something: `removals` is how often something
/// was removed so far.
///
/// # Errors
/// The step was cut off.
pub async fn bounded<T>(step: impl Future<Output = T>, removals: impl Fn() -> u64) -> Result<T, CutOff> {
    let mut step = pin!(step);
    let mut before = removals();
    loop {
        if let Ok(done) = tokio::time::timeout(LIMIT, &mut step).await {
            return Ok(done);
        }
        let now = removals();
        if now == before {
            return Err(CutOff);
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::{Instant, sleep};

    use super::*;

    /// The eviction follows.
    #[tokio::test(start_paused = true)]
    async fn a_step_that_never_ends_is_cut_off() {
        let began = Instant::now();
        assert_eq!(bounded(std::future::pending::<()>(), || 7).await, Err(CutOff));
        assert!((LIMIT..2 * LIMIT).contains(&began.elapsed()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_lasts_as_long_as_it_removes_something() {
        let second = Duration::from_secs(1);
        // How many images the runtime removes until it hangs or is done, and the seconds that each takes.
        for (what, images, each, hangs, expected) in [
            ("done at once", 1, 1, false, Ok(1)),
            ("many images", 30, 2, false, Ok(30)),
            ("slow, but not hung", 3, 14, false, Ok(3)),
            ("it hangs after some", 4, 5, true, Err(CutOff)),
            ("one takes too long", 1, 40, false, Err(CutOff)),
        ] {
            let removed = Cell::new(0);
            let began = Instant::now();
            let step = async {
                for _ in 0..images {
                    sleep(each * second).await;
                    removed.set(removed.get() + 1);
                }
                if hangs {
                    std::future::pending::<()>().await;
                }
                removed.get()
            };
            assert_eq!(bounded(step, || removed.get()).await, expected, "{what}");
            assert!(began.elapsed() <= images * each * second + 2 * LIMIT, "{what}: {:?}", began.elapsed());
        }
    }
}
