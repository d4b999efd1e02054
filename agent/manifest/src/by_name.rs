//! Values by name, for the few entries that a pod has of a kind.

use std::fmt;
use std::iter;
use std::marker::PhantomData;
use std::ops::Index;
use std::slice;
use std::vec;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Values by name (of a resource, of a container), in the order of the names.
///
/// Nearly all have two entries, and there are a dozen of these for each pod: a map has room for eleven
/// entries from the first one on (984 bytes for quantities), and this has room for those that are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByName<V>(Vec<(String, V)>);

/// An entry as a reader sees it.
type Entry<'a, V> = (&'a String, &'a V);

/// The entries in the order of the names.
pub type Iter<'a, V> = iter::Map<slice::Iter<'a, (String, V)>, fn(&'a (String, V)) -> Entry<'a, V>>;

impl<V> Default for ByName<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V> ByName<V> {
    /// Without entries.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.as_str().cmp(name))
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.place(name).ok().map(|at| &self.0[at].1)
    }

    /// The entry of a name.
    pub fn get_key_value(&self, name: &str) -> Option<Entry<'_, V>> {
        let (name, value) = &self.0[self.place(name).ok()?];
        Some((name, value))
    }

    /// The value of a name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.place(name).ok().map(|at| &mut self.0[at].1)
    }

    /// Whether it has this name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    /// Sets the value of a name, and returns the one before.
    pub fn insert(&mut self, name: String, value: V) -> Option<V> {
        match self.place(&name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (name, value));
                None
            }
        }
    }

    /// Sets the value of a name that it does not have yet.
    pub(super) fn insert_missing(&mut self, name: &str, value: &V)
    where
        V: Clone,
    {
        if !self.contains_key(name) {
            self.insert(name.to_owned(), value.clone());
        }
    }

    /// The value of a name, to be changed; the default is set first where there is none.
    pub fn get_or_default(&mut self, name: &str) -> &mut V
    where
        V: Default,
    {
        let at = self.place(name).unwrap_or_else(|at| {
            self.0.reserve_exact(1);
            self.0.insert(at, (name.to_owned(), V::default()));
            at
        });
        &mut self.0[at].1
    }

    /// Removes a name, and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<V> {
        self.place(name).ok().map(|at| self.0.remove(at).1)
    }

    /// Keeps the entries for which `is_kept` returns true.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&String, &mut V) -> bool) {
        self.0.retain_mut(|(name, value)| is_kept(name, value));
    }

    /// The entries in the order of the names.
    pub fn iter(&self) -> Iter<'_, V> {
        self.0.iter().map(|(name, value)| (name, value))
    }

    /// The entries in the order of the names, the values to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&String, &mut V)> {
        self.0.iter_mut().map(|(name, value)| (&*name, value))
    }

    /// The names in order.
    pub fn keys(&self) -> impl Iterator<Item = &String> + Clone {
        self.0.iter().map(|(name, _)| name)
    }

    /// The values in the order of the names.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// The values in the order of the names, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

/// For what is known to be there, as in tests.
impl<V> Index<&str> for ByName<V> {
    type Output = V;

    fn index(&self, name: &str) -> &V {
        match self.get(name) {
            Some(value) => value,
            None => panic!("there is no {name} in the list"),
        }
    }
}

impl<'a, V> IntoIterator for &'a ByName<V> {
    type Item = Entry<'a, V>;
    type IntoIter = Iter<'a, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<V> IntoIterator for ByName<V> {
    type Item = (String, V);
    type IntoIter = vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Of two values of one name the later one counts.
impl<V> Extend<(String, V)> for ByName<V> {
    fn extend<T: IntoIterator<Item = (String, V)>>(&mut self, more: T) {
        for (name, value) in more {
            self.insert(name, value);
        }
    }
}

impl<V> FromIterator<(String, V)> for ByName<V> {
    fn from_iter<T: IntoIterator<Item = (String, V)>>(entries: T) -> Self {
        let mut list = Self::new();
        list.extend(entries);
        list
    }
}

impl<V, const N: usize> From<[(String, V); N]> for ByName<V> {
    fn from(entries: [(String, V); N]) -> Self {
        entries.into_iter().collect()
    }
}

/// Written as a map.
impl<V: Serialize> Serialize for ByName<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for ByName<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// Reads the entries of a map.
struct Entries<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
    type Value = ByName<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut list = ByName::new();
        while let Some((name, value)) = map.next_entry()? {
            list.insert(name, value);
        }
        Ok(list)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::Quantity;

    #[test]
    fn it_has_room_for_what_is_there() {
        let list: ByName<Quantity> =
            ["memory", "cpu", "pods"].map(|n| (n.to_owned(), Quantity::from_whole(1))).into();
        assert_eq!(list.keys().collect::<Vec<_>>(), ["cpu", "memory", "pods"]);
        assert_eq!(list.0.capacity(), 3);
        assert!(size_of::<Quantity>() <= 40, "{}", size_of::<Quantity>());
    }

    proptest! {
        /// It behaves as a map.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0..4u8, "[a-d]{1,2}", 0..9i64), 0..40)) {
            let (mut list, mut map) = (ByName::new(), BTreeMap::new());
            for (what, name, amount) in steps {
                let amount = Quantity::from_whole(amount);
                match what {
                    0 => prop_assert_eq!(list.insert(name.clone(), amount.clone()), map.insert(name, amount)),
                    1 => prop_assert_eq!(list.remove(&name), map.remove(&name)),
                    2 => {
                        *list.get_or_default(&name) = amount.clone();
                        *map.entry(name).or_default() = amount;
                    }
                    _ => {
                        list.insert_missing(&name, &amount);
                        map.entry(name).or_insert(amount);
                    }
                }
                prop_assert!(list.iter().eq(map.iter()));
                prop_assert!(map.iter().all(|(name, amount)| list.get(name) == Some(amount)));
                prop_assert!(map.keys().all(|name| list.get_key_value(name) == map.get_key_value(name)));
                prop_assert_eq!(list.len(), map.len());
                let json = serde_json::to_string(&map.keys().map(|n| (n, 1)).collect::<BTreeMap<_, _>>());
                let read: ByName<u8> = serde_json::from_str(json.as_ref().unwrap()).unwrap();
                prop_assert_eq!(serde_json::to_string(&read).unwrap(), json.unwrap());
            }
        }
    }
}
