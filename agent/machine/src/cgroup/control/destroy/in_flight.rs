//! Allows one attempt at a time for each cgroup.

use parking_lot::Mutex;
use std::collections::HashSet;

use super::DestroyError;

/// The paths that are being destroyed.
#[derive(Debug, Default)]
pub struct InFlight(Mutex<HashSet<String>>);

/// A running attempt; dropping it ends it.
#[derive(Debug)]
pub struct Attempt<'a> {
    all: &'a InFlight,
    path: &'a str,
}

impl InFlight {
    /// Begins an attempt.
    ///
    /// # Errors
    /// [`DestroyError::InFlight`] while there is one for the same path.
    pub fn begin<'a>(&'a self, path: &'a str) -> Result<Attempt<'a>, DestroyError> {
        match self.paths().insert(path.to_owned()) {
            true => Ok(Attempt { all: self, path }),
            false => Err(DestroyError::InFlight { path: path.to_owned() }),
        }
    }

    fn paths(&self) -> parking_lot::MutexGuard<'_, HashSet<String>> {
        self.0.lock()
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.all.paths().remove(self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_call_for_the_same_cgroup_is_refused() {
        let all = InFlight::default();
        let first = all.begin("/a").unwrap();
        assert!(matches!(all.begin("/a"), Err(DestroyError::InFlight { path }) if path == "/a"));
        assert!(all.begin("/b").is_ok());
        drop(first);
        assert!(all.begin("/a").is_ok());
    }
}
