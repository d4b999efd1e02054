//! Amounts by resource name.

use std::iter;
use std::ops::Index;
use std::slice;
use std::vec;

use super::Quantity;

/// Amounts by resource name (`cpu`, `memory`, `hugepages-2Mi`, `example.com/gpu`), in the order of the names.
///
/// Nearly all have two entries, and there are a dozen lists for each pod: a map has room for eleven entries
/// from the first one on, 984 bytes, and this has room for those that are there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceList(Vec<(String, Quantity)>);

/// An entry as a reader sees it.
type Entry<'a> = (&'a String, &'a Quantity);

/// The entries in the order of the names.
pub type Iter<'a> = iter::Map<slice::Iter<'a, (String, Quantity)>, fn(&'a (String, Quantity)) -> Entry<'a>>;

impl ResourceList {
    /// An empty list.
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

    /// The amount of a resource.
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.place(name).ok().map(|at| &self.0[at].1)
    }

    /// The amount of a resource, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Quantity> {
        self.place(name).ok().map(|at| &mut self.0[at].1)
    }

    /// Whether it has this resource.
    pub fn contains_key(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    /// Sets the amount of a resource, and returns the one before.
    pub fn insert(&mut self, name: String, quantity: Quantity) -> Option<Quantity> {
        match self.place(&name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, quantity)),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, (name, quantity));
                None
            }
        }
    }

    /// Sets the amount of a resource that it does not have yet.
    pub(super) fn insert_missing(&mut self, name: &str, quantity: &Quantity) {
        if !self.contains_key(name) {
            self.insert(name.to_owned(), quantity.clone());
        }
    }

    /// Removes a resource, and returns its amount.
    pub fn remove(&mut self, name: &str) -> Option<Quantity> {
        self.place(name).ok().map(|at| self.0.remove(at).1)
    }

    /// Keeps the entries for which `is_kept` returns true.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&String, &mut Quantity) -> bool) {
        self.0.retain_mut(|(name, quantity)| is_kept(name, quantity));
    }

    /// The entries in the order of the names.
    pub fn iter(&self) -> Iter<'_> {
        self.0.iter().map(|(name, quantity)| (name, quantity))
    }

    /// The names in order.
    pub fn keys(&self) -> impl Iterator<Item = &String> + Clone {
        self.0.iter().map(|(name, _)| name)
    }

    /// The amounts in the order of the names.
    pub fn values(&self) -> impl Iterator<Item = &Quantity> {
        self.0.iter().map(|(_, quantity)| quantity)
    }

    /// The amounts in the order of the names, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Quantity> {
        self.0.iter_mut().map(|(_, quantity)| quantity)
    }
}

/// For what is known to be there, as in tests.
impl Index<&str> for ResourceList {
    type Output = Quantity;

    fn index(&self, name: &str) -> &Quantity {
        match self.get(name) {
            Some(quantity) => quantity,
            None => panic!("there is no {name} in the list"),
        }
    }
}

impl<'a> IntoIterator for &'a ResourceList {
    type Item = Entry<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl IntoIterator for ResourceList {
    type Item = (String, Quantity);
    type IntoIter = vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Of two amounts of one resource the later one counts.
impl Extend<(String, Quantity)> for ResourceList {
    fn extend<T: IntoIterator<Item = (String, Quantity)>>(&mut self, more: T) {
        for (name, quantity) in more {
            self.insert(name, quantity);
        }
    }
}

impl FromIterator<(String, Quantity)> for ResourceList {
    fn from_iter<T: IntoIterator<Item = (String, Quantity)>>(entries: T) -> Self {
        let mut list = Self::new();
        list.extend(entries);
        list
    }
}

impl<const N: usize> From<[(String, Quantity); N]> for ResourceList {
    fn from(entries: [(String, Quantity); N]) -> Self {
        entries.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_has_room_for_what_is_there() {
        let list: ResourceList =
            ["memory", "cpu", "pods"].map(|n| (n.to_owned(), Quantity::from_whole(1))).into();
        assert_eq!(list.keys().collect::<Vec<_>>(), ["cpu", "memory", "pods"]);
        assert_eq!(list.0.capacity(), 3);
        assert!(size_of::<Quantity>() <= 40, "{}", size_of::<Quantity>());
    }

    proptest! {
        /// It behaves as a map.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0..3u8, "[a-d]{1,2}", 0..9i64), 0..40)) {
            let (mut list, mut map) = (ResourceList::new(), BTreeMap::new());
            for (what, name, amount) in steps {
                let amount = Quantity::from_whole(amount);
                match what {
                    0 => prop_assert_eq!(list.insert(name.clone(), amount.clone()), map.insert(name, amount)),
                    1 => prop_assert_eq!(list.remove(&name), map.remove(&name)),
                    _ => {
                        list.insert_missing(&name, &amount);
                        map.entry(name).or_insert(amount);
                    }
                }
                prop_assert!(list.iter().eq(map.iter()));
                prop_assert!(map.iter().all(|(name, amount)| list.get(name) == Some(amount)));
                prop_assert_eq!(list.len(), map.len());
            }
        }
    }
}
