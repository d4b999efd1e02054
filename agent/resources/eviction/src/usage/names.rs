//! A stack of file names in one allocation: the subdirectories of a walk's open levels.

use std::ffi::CStr;

use super::budget::{Pool, Share};

/// Names with their terminating zero, one after the other.
#[derive(Debug)]
pub(super) struct Names {
    bytes: Vec<u8>,
    share: Share,
}

impl Names {
    pub fn new(pool: &Pool) -> Self {
        Self { bytes: Vec::new(), share: Share::of(pool) }
    }

    /// Where the next name begins.
    pub fn end(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a name; false if the budget is spent, unless `anyway`.
    pub fn push(&mut self, name: &CStr, anyway: bool) -> bool {
        let bytes = name.to_bytes_with_nul();
        let fits = self.share.take(bytes.len());
        if fits || anyway {
            self.bytes.extend_from_slice(bytes);
        }
        fits || anyway
    }

    /// The last name that begins at or after `start`.
    pub fn last(&self, start: usize) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.bytes.get(self.last_begin(start)?..)?).ok()
    }

    /// The name that ends right before `end`.
    pub fn before(&self, end: usize) -> Option<&CStr> {
        let bytes = self.bytes.get(..end)?;
        CStr::from_bytes_with_nul(bytes.get(begin_of_last(bytes)..)?).ok()
    }

    /// Removes the last name that begins at or after `start`.
    pub fn pop(&mut self, start: usize) {
        if let Some(begin) = self.last_begin(start) {
            self.truncate(begin);
        }
    }

    /// Removes what begins at or after `end`.
    pub fn truncate(&mut self, end: usize) {
        self.bytes.truncate(end);
        self.share.keep(end);
        // A directory with many subdirectories is behind: its memory is given back.
        if self.bytes.capacity() > 64 << 10 && self.bytes.len() < self.bytes.capacity() / 4 {
            self.bytes.shrink_to(self.bytes.capacity() / 2);
        }
    }

    fn last_begin(&self, start: usize) -> Option<usize> {
        let own = self.bytes.get(start..).filter(|own| !own.is_empty())?;
        Some(start + begin_of_last(own))
    }
}

fn begin_of_last(bytes: &[u8]) -> usize {
    let without_end = bytes.len().saturating_sub(1);
    bytes[..without_end].iter().rposition(|byte| *byte == 0).map_or(0, |zero| zero + 1)
}
