//! Answers that are used again for a while: bounded in number and in age.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A key that says nothing about what it was made of: SHA-256.
pub type Key = [u8; 32];

/// Answers by key.
#[derive(Debug)]
pub struct Cache<V> {
    entries: Mutex<HashMap<Key, (V, Instant)>>,
    most: usize,
}

impl<V: Clone> Cache<V> {
    /// An empty cache for at most so many answers.
    pub fn new(most: usize) -> Self {
        Self { entries: Mutex::default(), most }
    }

    /// The answer, if there is one that is not too old.
    pub fn get(&self, key: &Key, now: Instant) -> Option<V> {
        self.entries.lock().get(key).filter(|(_, until)| now < *until).map(|(answer, _)| answer.clone())
    }

    /// Keeps an answer for so long. If there are too many, the one goes that would be the first to be too
    /// old.
    pub fn put(&self, key: Key, answer: V, keep: Duration, now: Instant) {
        let Some(until) = now.checked_add(keep) else { return };
        let mut entries = self.entries.lock();
        if entries.len() >= self.most && !entries.contains_key(&key) {
            entries.retain(|_, (_, until)| now < *until);
            if entries.len() >= self.most
                && let Some(first) = entries.iter().min_by_key(|(_, (_, until))| *until).map(|(key, _)| *key)
            {
                entries.remove(&first);
            }
        }
        entries.insert(key, (answer, until));
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn answers_are_used_until_they_are_too_old() {
        let (cache, now) = (Cache::new(8), Instant::now());
        cache.put([1; 32], "a", SECOND, now);
        assert_eq!(cache.get(&[1; 32], now), Some("a"));
        assert_eq!(cache.get(&[2; 32], now), None);
        assert_eq!(cache.get(&[1; 32], now + SECOND), None);
        cache.put([1; 32], "b", SECOND, now + SECOND);
        assert_eq!(cache.get(&[1; 32], now + SECOND), Some("b"));
    }

    #[test]
    fn there_are_never_more_than_allowed() {
        let (cache, now) = (Cache::new(4), Instant::now());
        for n in 0..100u8 {
            cache.put([n; 32], n, SECOND * (200 - u32::from(n)), now);
            assert!(cache.len() <= 4);
            assert_eq!(cache.get(&[n; 32], now), Some(n), "the newest is kept");
        }
        // Those that are too old go first.
        let later = now + SECOND * 150;
        cache.put([200; 32], 200, SECOND, later);
        assert_eq!(cache.get(&[0; 32], later), Some(0));
    }
}
