//! A set of NUMA nodes.

use std::cmp::Ordering;
use std::fmt;

use nodewarden_machine::cpu_list::CpuList;

/// A set of NUMA nodes with numbers below 64, which is as many as the kubelet's bit masks have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeSet(u64);

impl NodeSet {
    /// No node.
    pub const EMPTY: Self = Self(0);
    /// The greatest number of a node.
    pub const GREATEST: u32 = u64::BITS - 1;

    /// The set of one node; empty if the number is above [`Self::GREATEST`].
    pub fn of(node: u32) -> Self {
        Self(1u64.checked_shl(node).unwrap_or(0))
    }

    /// Parses a list (`0-1,3`). `None` if it is none, or has a number above [`Self::GREATEST`].
    pub fn parse(text: &str) -> Option<Self> {
        let list = CpuList::parse_cpuset(text).ok()?;
        list.iter().all(|node| node <= Self::GREATEST).then(|| list.iter().collect())
    }

    /// The number of nodes.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is no node in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `node` is in it.
    pub fn contains(self, node: u32) -> bool {
        !Self::of(node).and(self).is_empty()
    }

    /// The nodes that are in both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The nodes that are in one of both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every node of this set is in `other`.
    pub fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The nodes, in order.
    pub fn iter(self) -> impl Iterator<Item = u32> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let node = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(node)
        })
    }

    /// The set as bits, with the nodes of `all` as the lowest ones: for counters by set.
    pub(crate) fn squeezed(self, all: Self) -> usize {
        if all.0 & all.0.wrapping_add(1) == 0 {
            // The nodes of `all` have the lowest numbers already.
            return (self.0 & all.0) as usize;
        }
        all.iter().enumerate().fold(0, |bits, (at, node)| bits | usize::from(self.contains(node)) << at)
    }

    /// The set of which [`Self::squeezed`] gave `bits`.
    pub(crate) fn spread(bits: usize, all: Self) -> Self {
        all.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1).map(|(_, node)| node).collect()
    }

    /// Fewer nodes first; of equally many the one with the lower bits (`bitmask.IsNarrowerThan`).
    pub fn by_width(self, other: Self) -> Ordering {
        (self.len(), self.0).cmp(&(other.len(), other.0))
    }

    /// Calls `each` with every subset but the empty one: those of one node first, and those of the same size
    /// in lexical order (`bitmask.IterateBitMasks`). There are 2 to the power of the number of nodes.
    pub fn for_each_subset(self, mut each: impl FnMut(Self)) {
        (1..=self.len()).for_each(|size| self.for_each_of_size(size, &mut each));
    }

    /// Calls `each` with every subset of this size, in lexical order.
    pub fn for_each_of_size(self, size: usize, mut each: impl FnMut(Self)) {
        Self::combine(&self.iter().collect::<Vec<_>>(), size, Self::EMPTY, &mut each);
    }

    fn combine(nodes: &[u32], size: usize, chosen: Self, each: &mut impl FnMut(Self)) {
        if size == 0 {
            return each(chosen);
        }
        for (at, node) in nodes.iter().enumerate().take((nodes.len() + 1).saturating_sub(size)) {
            Self::combine(&nodes[at + 1..], size - 1, chosen.or(Self::of(*node)), each);
        }
    }
}

/// Sums of a number that each NUMA node has, for any set of nodes: one table for each 8 nodes.
#[derive(Debug, Clone)]
pub struct NodeSums(Vec<[u64; 256]>);

impl NodeSums {
    /// The sums for subsets of `nodes`. A sum that does not fit is the greatest number.
    pub fn new(nodes: NodeSet, of: impl Fn(u32) -> u64) -> Self {
        let table = |byte: u32| {
            let mut table = [0u64; 256];
            for bits in 1..256usize {
                let lowest = byte * 8 + bits.trailing_zeros();
                let own = if nodes.contains(lowest) { of(lowest) } else { 0 };
                table[bits] = table[bits & (bits - 1)].saturating_add(own);
            }
            table
        };
        let bytes = (u64::BITS - nodes.0.leading_zeros()).div_ceil(8);
        Self((0..bytes).map(table).collect())
    }

    /// The sum over a set.
    pub fn of(&self, nodes: NodeSet) -> u64 {
        let part = |(at, table): (usize, &[u64; 256])| table[(nodes.0 >> (at * 8) & 0xff) as usize];
        self.0.iter().enumerate().map(part).fold(0, u64::saturating_add)
    }
}

/// Numbers above [`NodeSet::GREATEST`] are left out.
impl FromIterator<u32> for NodeSet {
    fn from_iter<I: IntoIterator<Item = u32>>(nodes: I) -> Self {
        nodes.into_iter().fold(Self::EMPTY, |set, node| set.or(Self::of(node)))
    }
}

/// As a list (`0-1,3`).
impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().collect::<CpuList>().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_come_by_size_and_then_in_lexical_order() {
        let mut seen = Vec::new();
        NodeSet::parse("0,2,5").unwrap().for_each_subset(|set| seen.push(set.to_string()));
        assert_eq!(seen, ["0", "2", "5", "0,2", "0,5", "2,5", "0,2,5"]);
    }

    #[test]
    fn sums_are_those_of_the_nodes() {
        let all = NodeSet::parse("0,7-9,63").unwrap();
        let sums = NodeSums::new(all, |node| u64::from(node) + 1);
        all.for_each_subset(|set| {
            assert_eq!(sums.of(set), set.iter().map(|node| u64::from(node) + 1).sum::<u64>(), "{set}");
        });
        assert_eq!(NodeSums::new(all, |_| u64::MAX).of(all), u64::MAX);
    }

    #[test]
    fn lists_of_nodes_are_read() {
        for (text, expected) in [("", Some(0)), ("0-1,63", Some(3)), ("64", None), ("a", None)] {
            assert_eq!(NodeSet::parse(text).map(NodeSet::len), expected, "{text}");
        }
        assert_eq!((NodeSet::of(64), NodeSet::of(63).len()), (NodeSet::EMPTY, 1));
    }

    #[test]
    fn narrower_is_fewer_nodes_then_lower_bits() {
        let sets = ["3", "0,3", "1-2", "0-2"].map(|text| NodeSet::parse(text).unwrap());
        let mut sorted = sets;
        sorted.sort_by(|a, b| a.by_width(*b));
        assert_eq!(sorted.map(|set| set.to_string()), ["3", "1-2", "0,3", "0-2"]);
    }
}
