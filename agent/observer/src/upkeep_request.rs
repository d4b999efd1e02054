//! Asks the thread that tidies up to look soon, at most once until it has looked.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};

/// A request that is not served yet, if there is one, and whom it wakes.
#[derive(Debug, Default)]
pub struct UpkeepRequest {
    asked: AtomicBool,
    thread: OnceLock<Thread>,
}

impl UpkeepRequest {
    /// The calling thread serves the requests from now on: each wakes it from `std::thread::park`. The first
    /// call decides.
    pub fn serve(&self) {
        let _first = self.thread.set(thread::current());
    }

    /// Asks. Wakes the thread unless it was asked already. Never blocks.
    pub fn ask(&self) {
        if !self.asked.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Whether it was asked since [`Self::take`].
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Takes the request: what is asked from now on is another one. Returns whether there was one.
    pub fn take(&self) -> bool {
        self.asked.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_request_wakes_the_thread_once_until_it_is_taken() {
        let request = Arc::new(UpkeepRequest::default());
        request.ask();
        assert!(request.is_asked() && request.take() && !request.take());
        let serving = request.clone();
        let thread = thread::spawn(move || {
            serving.serve();
            let begun = Instant::now();
            while !serving.is_asked() {
                thread::park_timeout(Duration::from_secs(30));
            }
            begun.elapsed()
        });
        thread::sleep(Duration::from_millis(50));
        request.ask();
        request.ask();
        assert!(thread.join().unwrap() < Duration::from_secs(20));
        assert!(request.take() && !request.is_asked());
    }
}
