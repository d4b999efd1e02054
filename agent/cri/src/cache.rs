//! A cache of identities enriched from the table of names. Its functions never block.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use super::pace::Misses;
use super::table::KEPT;
use super::{Listing, Table, enrich};
use nodewarden_model::Identity;

/// An identity by what the runtime could know it by: the container's id or the pod's uid.
#[derive(Debug)]
struct Key(Arc<Identity>);

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        key(&self.0).unwrap_or_default()
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Borrow::<str>::borrow(self).hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        Borrow::<str>::borrow(self) == Borrow::<str>::borrow(other)
    }
}

impl Eq for Key {}

/// Enriched identities, recomputed when the table has changed.
#[derive(Debug, Default)]
pub struct Cache {
    table: Table,
    /// Counts the table's changes.
    generation: u64,
    /// Boxed: a map has room for more entries than it holds.
    entries: HashMap<Key, Box<Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// The identity that it was computed from: the same id may occur at several paths.
    of: Arc<Identity>,
    named: Arc<Identity>,
    generation: u64,
    /// Present while names are missing. Boxed, since that is for a moment.
    misses: Option<Box<Misses>>,
    used: Instant,
}

impl Cache {
    /// The identity with the names known now, and whether the runtime should be queried for more.
    pub fn name(&mut self, identity: &Arc<Identity>, now: Instant) -> (Arc<Identity>, bool) {
        let Some(key) = key(identity) else { return (identity.clone(), false) };
        if let Some(entry) = self.entries.get_mut(key) {
            entry.used = now;
            let same = Arc::ptr_eq(&entry.of, identity) || entry.of == *identity;
            if entry.generation != self.generation || !same {
                entry.of = identity.clone();
                entry.named = named(identity, &self.table);
                entry.generation = self.generation;
                entry.misses = match entry.misses.take() {
                    misses if entry.named.lacks_names() => Some(misses.unwrap_or_default()),
                    _ => None,
                };
            }
            let answer = (entry.named.clone(), entry.misses.as_mut().is_some_and(|misses| misses.ask(now)));
            // The key holds the identity too: the one before would stay in memory with it.
            if !same && let Some(entry) = self.entries.remove(key) {
                self.entries.insert(Key(identity.clone()), entry);
            }
            return answer;
        }
        let named = named(identity, &self.table);
        let mut misses = named.lacks_names().then(Box::<Misses>::default);
        let ask = misses.as_mut().is_some_and(|misses| misses.ask(now));
        let entry = Entry {
            of: identity.clone(),
            named: named.clone(),
            generation: self.generation,
            misses,
            used: now,
        };
        self.entries.insert(Key(identity.clone()), Box::new(entry));
        (named, ask)
    }

    /// Adds a listing of the runtime.
    pub fn learn(&mut self, listing: &Listing, now: Instant) {
        if self.table.learn(listing, now) {
            self.generation += 1;
        }
    }

    /// Counts the changes of what is known.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Drops identities that were not looked up recently.
    pub fn tidy(&mut self, now: Instant) {
        self.entries.retain(|_, entry| now.duration_since(entry.used) <= KEPT);
    }
}

/// The id under which the runtime could know a name.
fn key(identity: &Identity) -> Option<&str> {
    match identity {
        Identity::Pod { uid, .. } => Some(uid),
        Identity::Container { id, .. } => Some(id),
        _ => None,
    }
}

fn named(identity: &Arc<Identity>, table: &Table) -> Arc<Identity> {
    enrich(identity, table).map_or_else(|| identity.clone(), Arc::new)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::enrich::tests::{container, pod};
    use super::super::table::tests::listing;
    use super::*;

    #[test]
    fn asks_once_then_answers_from_the_listing() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        let identity = Arc::new(container("uid-1", "c0c0c0c0c0c0"));
        let (unnamed, ask) = cache.name(&identity, now);
        assert!(Arc::ptr_eq(&unnamed, &identity) && ask);
        assert!(!cache.name(&identity, now).1, "asked for already");
        assert!(cache.name(&identity, now + Duration::from_secs(1)).1);

        cache.learn(&listing(), now);
        let (named, ask) = cache.name(&identity, now);
        assert!(!ask && *named != *identity);
        assert!(Arc::ptr_eq(&named, &cache.name(&identity, now).0), "made once");
        // Another Arc of the same identity, and the same id at another path.
        assert!(Arc::ptr_eq(&named, &cache.name(&Arc::new(container("uid-1", "c0c0c0c0c0c0")), now).0));
        let elsewhere = cache.name(&Arc::new(container("uid-2", "c0c0c0c0c0c0")), now).0;
        assert_eq!(elsewhere.pod_uid(), Some("uid-2"));
    }

    #[test]
    fn identities_without_names_are_returned_unchanged() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        for identity in [Identity::Root, Identity::Kubepods, Identity::Other] {
            let identity = Arc::new(identity);
            let (same, ask) = cache.name(&identity, now);
            assert!(Arc::ptr_eq(&same, &identity) && !ask);
        }
        assert!(cache.entries.is_empty());
    }

    #[test]
    fn unused_entries_are_dropped() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.name(&Arc::new(pod("uid-1")), now);
        cache.tidy(now + KEPT);
        assert_eq!(cache.entries.len(), 1);
        cache.tidy(now + KEPT + Duration::from_secs(1));
        assert!(cache.entries.is_empty());
    }

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<Entry>() <= 48, "{}", size_of::<Entry>());
    }

    #[test]
    fn a_named_identity_is_its_own() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.learn(&listing(), now);
        let identity = Arc::new(container("uid-1", "c0c0c0c0c0c0"));
        let named = cache.name(&identity, now).0;
        let (again, ask) = cache.name(&named, now);
        assert!(Arc::ptr_eq(&again, &named) && !ask);
        assert_eq!(Arc::strong_count(&identity), 1, "only the one with names is kept");
    }
}
