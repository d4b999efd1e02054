//! The images for a scrape. Listing them may take long or hang in the runtime, so a scrape uses the last
//! known list and never waits.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use nodewarden_model::{ImageGc, ImagesView};

/// A list of this age is refreshed.
const FRESH: Duration = Duration::from_secs(30);

/// A list of this age is no longer used.
const STALE: Duration = Duration::from_secs(600);

/// The last list, and whether a refresh is running.
#[derive(Debug, Clone, Default)]
pub(super) struct Images(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    last: Option<(Instant, Arc<ImagesView>)>,
    looking: bool,
}

/// Marks a refresh as ended, also if it is cancelled.
struct Looking(Images);

impl Images {
    /// The last known list, if it is not too old. Starts a refresh in the background if it is due.
    pub fn last(&self, image_gc: Option<Arc<dyn ImageGc>>) -> Option<Arc<ImagesView>> {
        let mut state = self.lock();
        let fresh = state.last.as_ref().is_some_and(|(when, _)| when.elapsed() < FRESH);
        if let Some(image_gc) = image_gc.filter(|_| !fresh && !state.looking) {
            state.looking = true;
            let look = Looking(self.clone());
            tokio::spawn(async move {
                let view = Arc::new(image_gc.view().await);
                look.0.lock().last = Some((Instant::now(), view));
            });
        }
        let last = state.last.as_ref().filter(|(when, _)| when.elapsed() < STALE);
        last.map(|(_, view)| view.clone())
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.lock().looking = false;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::sync::Notify;
    use tokio::sync::mpsc::UnboundedSender;

    use super::*;
    use nodewarden_model::GcSettings;
    use nodewarden_model::{GcOutcome, GcStep};

    /// A runtime that waits for permission to respond, and responds with a sequence number.
    #[derive(Default)]
    struct Slow {
        asked: AtomicU64,
        answer: Notify,
    }

    #[async_trait::async_trait]
    impl ImageGc for Slow {
        fn settings(&self) -> GcSettings {
            GcSettings::default()
        }

        async fn view(&self) -> ImagesView {
            let wanted = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            self.answer.notified().await;
            ImagesView { wanted, ..ImagesView::default() }
        }

        async fn collect(&self, _: bool, _: UnboundedSender<GcStep>) -> Result<GcOutcome, String> {
            unreachable!("the tests do not collect")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_scrape_shows_the_last_images_and_never_waits() {
        let (images, slow) = (Images::default(), Arc::new(Slow::default()));
        let last = || images.last(Some(slow.clone())).map(|view| view.wanted);
        let settle = || tokio::time::sleep(Duration::from_millis(1));
        assert_eq!(last(), None);
        settle().await;
        assert_eq!((last(), slow.asked.load(Ordering::Relaxed)), (None, 1));
        slow.answer.notify_one();
        settle().await;
        assert_eq!(last(), Some(1));
        settle().await;
        assert_eq!(slow.asked.load(Ordering::Relaxed), 1, "it is fresh");
        tokio::time::sleep(FRESH).await;
        assert_eq!(last(), Some(1));
        settle().await;
        assert_eq!((last(), slow.asked.load(Ordering::Relaxed)), (Some(1), 2));
        // The runtime hangs: one refresh is running, and the last list becomes too old.
        tokio::time::sleep(STALE).await;
        assert_eq!((last(), slow.asked.load(Ordering::Relaxed)), (None, 2));
        slow.answer.notify_one();
        settle().await;
        assert_eq!(last(), Some(2));
    }

    #[tokio::test]
    async fn nothing_without_a_runtime() {
        assert_eq!(Images::default().last(None), None);
    }
}
