//! Bounds of what all walks together keep in memory, whatever pods create.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of names of directories that are still to be counted.
const NAMES: usize = 4 << 20;
/// Inodes with several names that were already counted: 9 to 18 bytes each.
const LINKED: usize = 512 << 10;
/// Open levels of directories (24 bytes each) beyond those that every walk may have.
const FRAMES: usize = 256 << 10;

/// What is left for all walks. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    pub names: Pool,
    pub linked: Pool,
    pub frames: Pool,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(NAMES, LINKED, FRAMES)
    }
}

impl Budget {
    /// Other bounds than usual, for tests.
    pub fn of(names: usize, linked: usize, frames: usize) -> Self {
        Self { names: Pool::of(names), linked: Pool::of(linked), frames: Pool::of(frames) }
    }
}

/// An amount that is taken from and given back to.
#[derive(Debug, Clone)]
pub(super) struct Pool(Arc<AtomicUsize>);

impl Pool {
    fn of(amount: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(amount)))
    }
}

/// What one walk has taken from a pool; given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    pool: Pool,
    taken: usize,
}

impl Share {
    pub fn of(pool: &Pool) -> Self {
        Self { pool: pool.clone(), taken: 0 }
    }

    /// Takes `amount`; false if so much is not left.
    pub fn take(&mut self, amount: usize) -> bool {
        let less = |left: usize| left.checked_sub(amount);
        let is = self.pool.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        self.taken += if is { amount } else { 0 };
        is
    }

    /// Gives back down to `keep`.
    pub fn keep(&mut self, keep: usize) {
        let back = self.taken.saturating_sub(keep);
        self.taken -= back;
        self.pool.0.fetch_add(back, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.keep(0);
    }
}
