//! Values that many events have in common, stored once.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// Stores each value once, with the number of its holders.
#[derive(Debug)]
pub struct Pool<T: ?Sized>(HashMap<Arc<T>, u32>);

impl<T: ?Sized> Default for Pool<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// A value taken from a pool.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken<T: ?Sized> {
    /// The shared value.
    pub value: Arc<T>,
    /// Whether the pool did not have it before.
    pub new: bool,
}

impl<T: ?Sized + Hash + Eq> Pool<T>
where
    Arc<T>: Borrow<T>,
{
    /// Returns the stored value, and adds it if the pool does not have it; counts one more holder.
    pub fn take<V: Borrow<T> + Into<Arc<T>>>(&mut self, value: V) -> Taken<T> {
        if let Some((known, _)) = self.0.get_key_value(value.borrow()) {
            let known = known.clone();
            if let Some(holders) = self.0.get_mut(value.borrow()) {
                *holders += 1;
            }
            return Taken { value: known, new: false };
        }
        let value: Arc<T> = value.into();
        self.0.insert(value.clone(), 1);
        Taken { value, new: true }
    }

    /// Counts one holder less. Returns whether it was the last one and the pool has removed the value.
    pub fn give_back(&mut self, value: &T) -> bool {
        let Some(holders) = self.0.get_mut(value) else { return false };
        *holders -= 1;
        let last = *holders == 0;
        if last {
            self.0.remove(value);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_once_and_until_its_last_holder_gives_it_back() {
        let mut pool = Pool::<str>::default();
        let first = pool.take("a");
        let again = pool.take("a");
        assert!(first.new && !again.new && Arc::ptr_eq(&first.value, &again.value));
        assert!(pool.take("b").new);
        assert!(!pool.give_back("a") && pool.give_back("a") && !pool.give_back("a"));
        assert_eq!(pool.0.len(), 1);
        assert!(pool.take("a").new);
    }
}
