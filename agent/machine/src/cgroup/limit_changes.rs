//! How often limits of cgroups were changed, as far as this process knows: by itself, by a container runtime
//! that it asked to, and by others where the kernel reports their writes. Who keeps a limit that it has read
//! sees from this whether to read it again.

use std::sync::atomic::{AtomicU64, Ordering};

static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Counts a change that has been made.
pub fn record() {
    CHANGES.fetch_add(1, Ordering::Release);
}

/// The number of changes since this process started. What is read after this call has all of them.
pub fn count() -> u64 {
    CHANGES.load(Ordering::Acquire)
}
