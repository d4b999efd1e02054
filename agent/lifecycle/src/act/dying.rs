//! The processes of a pod that was killed through its cgroup, as a hard eviction threshold requires: how
//! long they are left alone.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::state::PodState;
use nodewarden_eviction::kill::empty;
use nodewarden_tasks::blocking;

/// How long at most. Most have ended after some tens of milliseconds.
const LIMIT: Duration = Duration::from_millis(300);
/// Time between two looks.
const GLANCE: Duration = Duration::from_millis(4);

/// Waits until a pod that was killed has no process left. A runtime that is asked to stop its containers
/// meanwhile starts processes of its own for that, which take the CPU from those that end: runc some 15 ms
/// of the 30 ms that a process of 128 MiB took.
pub async fn wait(state: &PodState) {
    if !state.read().killed {
        return;
    }
    let Some(path) = state.env.places.borrow().get(&state.pod().uid).map(|place| place.path.clone()) else {
        return;
    };
    let files = &state.env.cgroups;
    until(|| {
        let (files, path) = (files.clone(), path.clone());
        // A look that fails is no reason to wait.
        async move { blocking::KILLS.run(move || empty(&files, &path)).await.unwrap_or(true) }
    })
    .await;
}

async fn until<F: Future<Output = bool>>(mut are_gone: impl FnMut() -> F) {
    let begun = Instant::now();
    while !are_gone().await && begun.elapsed() < LIMIT {
        sleep(GLANCE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waited(looks: u32) -> (u32, Duration) {
        let (begun, mut seen) = (Instant::now(), 0);
        until(|| {
            seen += 1;
            std::future::ready(seen == looks)
        })
        .await;
        (seen, begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_with_the_last_process_or_after_its_limit() {
        assert_eq!(waited(1).await, (1, Duration::ZERO));
        assert_eq!(waited(4).await, (4, GLANCE * 3));
        let (_, longest) = waited(u32::MAX).await;
        assert!((LIMIT..LIMIT + GLANCE).contains(&longest), "{longest:?}");
    }
}
