//! The daemon in `observe` mode: starts what watches, serves what is seen, and leaves the machine clean.

mod collecting;
mod counters;
mod devices;
mod error;
mod evicting;
mod files;
mod managing;
mod memory;
mod names;
mod observer;
mod registry;
mod rotating;
mod sampler;
mod squeezing;
mod start;
mod tree;
mod upkeep;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use error::WatchError;
pub use start::run;

/// Locks; a panic elsewhere while the lock was held leaves whole values here, so the agent goes on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
