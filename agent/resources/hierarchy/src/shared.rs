//! What many cgroups have in common is held once: most pods have limits that others have too, and the path of
//! a cgroup is a key of several collections.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use nodewarden_machine::cgroup::control::Limits;

/// Limits by path. A parent's path is a prefix of its children's, so it comes first.
pub type ByPath = BTreeMap<Arc<str>, Arc<Limits>>;

/// The limits that are wanted now: those that are written, with those that are read back afterwards.
#[derive(Debug, Default)]
pub struct SharedLimits(HashMap<Arc<Limits>, Arc<Limits>>);

impl SharedLimits {
    /// These limits, and what `settled` returns for them; both as those that were equal to them before.
    pub fn of(
        &mut self,
        exact: Limits,
        settled: impl FnOnce(&Limits) -> Limits,
    ) -> (Arc<Limits>, Arc<Limits>) {
        if let Some((exact, settled)) = self.0.get_key_value(&exact) {
            return (exact.clone(), settled.clone());
        }
        let (settled, exact) = (settled(&exact), Arc::new(exact));
        let settled = if settled == *exact { exact.clone() } else { Arc::new(settled) };
        self.0.insert(exact.clone(), settled.clone());
        (exact, settled)
    }

    /// Drops those that are held nowhere else.
    pub fn forget_unused(&mut self) {
        self.0.retain(|exact, settled| {
            let own = if Arc::ptr_eq(exact, settled) { 2 } else { 1 };
            Arc::strong_count(exact) > own
        });
    }
}

/// `limits`, in the allocation of `likely` if they are equal.
pub fn shared(limits: Limits, likely: &Arc<Limits>) -> Arc<Limits> {
    if limits == **likely { likely.clone() } else { Arc::new(limits) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(min: u64) -> Limits {
        Limits { memory_min: Some(min), ..Limits::default() }
    }

    #[test]
    fn equal_limits_are_one_allocation_and_settled_once() {
        let mut all = SharedLimits::default();
        let (a, a_settled) = all.of(limits(5), |_| limits(4));
        let (b, b_settled) = all.of(limits(5), |_| panic!("they are known"));
        assert!(Arc::ptr_eq(&a, &b) && Arc::ptr_eq(&a_settled, &b_settled));
        assert_eq!((&*a, &*a_settled), (&limits(5), &limits(4)));
        let (c, c_settled) = all.of(limits(8), Limits::clone);
        assert!(Arc::ptr_eq(&c, &c_settled), "settled limits are the same limits");
        all.forget_unused();
        assert_eq!(all.0.len(), 2);
        drop((a, b, c, c_settled));
        all.forget_unused();
        assert!(all.0.is_empty());
    }

    #[test]
    fn equal_limits_take_the_allocation_of_the_likely_ones() {
        let likely = Arc::new(limits(5));
        assert!(Arc::ptr_eq(&shared(limits(5), &likely), &likely));
        assert_eq!(*shared(limits(6), &likely), limits(6));
    }
}
