//! A set of CPUs as bits, for decisions that compare many sets. [`CpuList`] reads and writes the text.

use std::fmt;

use crate::cpu_list::CpuList;

const BITS: u32 = u64::BITS;

/// A set of CPU numbers up to 65535.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// Bit `n % 64` of word `n / 64` stands for CPU `n`. The last word is not 0, so that equal sets are equal
    /// words.
    words: Vec<u64>,
}

impl CpuSet {
    /// Parses a list as a cpuset file has it (`0-3,7`); an empty text is the empty set.
    ///
    /// # Errors
    /// The first part that is neither a number up to 65535 nor a range.
    pub fn parse(text: &str) -> Result<Self, &str> {
        CpuList::parse_cpuset(text).map(|list| list.iter().collect())
    }

    /// The number of CPUs.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is no CPU in it.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether `cpu` is in it.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get((cpu / BITS) as usize).is_some_and(|word| word & (1 << (cpu % BITS)) != 0)
    }

    /// Adds `cpu`.
    pub fn insert(&mut self, cpu: u32) {
        let at = (cpu / BITS) as usize;
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (cpu % BITS);
    }

    /// The CPUs, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let bits = |(at, word): (usize, &u64)| {
            let (mut rest, base) = (*word, at as u32 * BITS);
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(base + bit)
            })
        };
        self.words.iter().enumerate().flat_map(bits)
    }

    /// The smallest CPU number.
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The CPUs that are in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self::trimmed(self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect())
    }

    /// The number of CPUs that are in both.
    pub fn common(&self, other: &Self) -> usize {
        self.words.iter().zip(&other.words).map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    /// The CPUs of this set that are not in `other`.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        let without = |(at, word): (usize, &u64)| word & !other.words.get(at).copied().unwrap_or(0);
        Self::trimmed(self.words.iter().enumerate().map(without).collect())
    }

    /// The CPUs that are in one of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.add(other);
        all
    }

    /// Adds the CPUs of `other`.
    pub fn add(&mut self, other: &Self) {
        if other.words.len() > self.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        self.words.iter_mut().zip(&other.words).for_each(|(word, more)| *word |= more);
    }

    /// Whether every CPU of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.common(other) == self.len()
    }

    /// Whether no CPU is in both.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(a, b)| a & b == 0)
    }

    fn trimmed(mut words: Vec<u64>) -> Self {
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::default();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

/// As the kernel writes it (`0-3,7`).
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().collect::<CpuList>().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sets_are_read_and_written_as_cpuset_files() {
        for (text, expected) in
            [("", Some("")), ("3,0-1", Some("0-1,3")), ("63-65,200", Some("63-65,200")), ("x", None)]
        {
            assert_eq!(CpuSet::parse(text).ok().map(|set| set.to_string()).as_deref(), expected, "{text}");
        }
    }

    proptest! {
        /// Every operation gives what a set of numbers gives.
        #[test]
        fn operations_agree_with_a_set_of_numbers(
            a in prop::collection::btree_set(0..300u32, 0..40),
            b in prop::collection::btree_set(0..300u32, 0..40),
        ) {
            let set = |numbers: &BTreeSet<u32>| numbers.iter().copied().collect::<CpuSet>();
            let (left, right) = (set(&a), set(&b));
            prop_assert_eq!(left.union(&right), set(&(&a | &b)));
            prop_assert_eq!(left.intersection(&right), set(&(&a & &b)));
            prop_assert_eq!(left.difference(&right), set(&(&a - &b)));
            prop_assert_eq!(left.common(&right), (&a & &b).len());
            prop_assert_eq!((left.len(), left.is_empty()), (a.len(), a.is_empty()));
            prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
            prop_assert_eq!(left.is_disjoint(&right), a.is_disjoint(&b));
            prop_assert_eq!(left.first(), a.first().copied());
            prop_assert!(left.iter().eq(a.iter().copied()));
            prop_assert!((0..300).all(|cpu| left.contains(cpu) == a.contains(&cpu)));
            let text = left.to_string();
            prop_assert_eq!(CpuSet::parse(&text), Ok(left));
        }
    }
}
