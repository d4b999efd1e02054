//! Limits of huge pages.

use super::{Bound, PageSize};

/// Limits in bytes by page size. A machine has one or two sizes, and the limits of a thousand pods are held:
/// they take no more than their own bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct HugePageLimits(Box<[(PageSize, Bound)]>);

impl HugePageLimits {
    /// The limit of this size.
    pub fn get(&self, size: PageSize) -> Option<Bound> {
        self.iter().find(|(own, _)| *own == size).map(|(_, bound)| bound)
    }

    /// All of them, from the smallest size on.
    pub fn iter(&self) -> impl Iterator<Item = (PageSize, Bound)> + '_ {
        self.0.iter().copied()
    }

    /// Whether none is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Of limits of the same size the last one counts.
impl FromIterator<(PageSize, Bound)> for HugePageLimits {
    fn from_iter<I: IntoIterator<Item = (PageSize, Bound)>>(limits: I) -> Self {
        let mut all: Vec<(PageSize, Bound)> = Vec::new();
        for (size, bound) in limits {
            match all.binary_search_by_key(&size, |(own, _)| *own) {
                Ok(at) => all[at].1 = bound,
                Err(at) => all.insert(at, (size, bound)),
            }
        }
        Self(all.into())
    }
}

impl<const N: usize> From<[(PageSize, Bound); N]> for HugePageLimits {
    fn from(limits: [(PageSize, Bound); N]) -> Self {
        limits.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_order_and_the_last_limit_of_a_size_counts() {
        let limits = HugePageLimits::from([
            (PageSize(1 << 30), Bound::Max),
            (PageSize(2 << 20), Bound::At(1)),
            (PageSize(1 << 30), Bound::At(2)),
        ]);
        let expected = [(PageSize(2 << 20), Bound::At(1)), (PageSize(1 << 30), Bound::At(2))];
        assert_eq!(limits.iter().collect::<Vec<_>>(), expected);
        assert_eq!(limits.get(PageSize(1 << 30)), Some(Bound::At(2)));
        assert_eq!(limits.get(PageSize(1 << 16)), None);
        assert!(!limits.is_empty() && HugePageLimits::default().is_empty());
    }
}
