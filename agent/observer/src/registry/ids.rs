//! The paths of a hierarchy's cgroups by the kernel's ids.

use std::sync::Arc;

/// Ordered by id: half the memory of a hash table. The kernel gives ascending ids, so that a new cgroup comes
/// last as a rule.
#[derive(Debug, Default)]
pub(super) struct Ids(Vec<(u64, Arc<str>)>);

impl Ids {
    /// The path of a cgroup.
    pub fn get(&self, id: u64) -> Option<&Arc<str>> {
        let at = self.at(id).ok()?;
        Some(&self.0[at].1)
    }

    /// Adds a cgroup. Returns the path that it had before, if it was known.
    pub fn insert(&mut self, id: u64, path: Arc<str>) -> Option<Arc<str>> {
        match self.at(id) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, path)),
            Err(at) => {
                if self.0.len() == self.0.capacity() {
                    // Not twice as much, as a vector would by itself.
                    self.0.reserve_exact(self.0.len() / 8 + 8);
                }
                self.0.insert(at, (id, path));
                None
            }
        }
    }

    /// Removes a cgroup and returns its path.
    pub fn remove(&mut self, id: u64) -> Option<Arc<str>> {
        let at = self.at(id).ok()?;
        Some(self.0.remove(at).1)
    }

    /// All ids.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(id, _)| *id)
    }

    fn at(&self, id: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |(own, _)| *own)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_a_map(steps in prop::collection::vec((0u64..40, any::<bool>()), 0..200)) {
            let (mut ids, mut map) = (Ids::default(), HashMap::new());
            for (i, (id, insert)) in steps.into_iter().enumerate() {
                let path: Arc<str> = format!("/{i}").into();
                if insert {
                    prop_assert_eq!(ids.insert(id, path.clone()), map.insert(id, path));
                } else {
                    prop_assert_eq!(ids.remove(id), map.remove(&id));
                }
                prop_assert_eq!(ids.get(id), map.get(&id));
            }
            let mut all: Vec<u64> = map.into_keys().collect();
            all.sort_unstable();
            prop_assert_eq!(ids.iter().collect::<Vec<_>>(), all);
        }
    }

    #[test]
    fn there_is_little_room_that_is_not_used() {
        let mut ids = Ids::default();
        let path: Arc<str> = "/".into();
        for id in 0..4_000 {
            ids.insert(id, path.clone());
        }
        assert!(ids.0.capacity() <= 4_600, "{}", ids.0.capacity());
    }
}
