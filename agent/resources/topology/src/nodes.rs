//! The machine's NUMA nodes, with their memory, and how far they are from each other.

use std::collections::BTreeMap;

use crate::{CpuTopology, NodeSet};

/// What [`crate::read`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// The CPUs that are online.
    pub cpus: CpuTopology,
    /// The NUMA nodes, by number; those without CPUs or memory too.
    pub nodes: Vec<NumaNode>,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Its memory, in bytes.
    pub memory_bytes: u64,
    /// Its huge pages, by size.
    pub huge_pages: Vec<HugePages>,
    /// Its distance to each node that is online, in the order of their numbers (10: itself); empty if not
    /// known.
    pub distances: Vec<u64>,
}

/// The huge pages of one size on a NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePages {
    /// Size of a page, in KiB.
    pub size_kib: u64,
    /// How many there are, used or not.
    pub count: u64,
}

/// How far NUMA nodes are from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distances {
    /// Numbers and rows, in the order of the numbers: column `i` is the distance to the `i`-th node. (The
    /// kubelet takes the column by the node's number, which is wrong where numbers are missing.)
    rows: BTreeMap<u32, Vec<u64>>,
}

impl Distances {
    /// The distances between these nodes.
    pub fn of(nodes: &[NumaNode]) -> Self {
        Self { rows: nodes.iter().map(|node| (node.id, node.distances.clone())).collect() }
    }

    /// The nodes.
    pub fn nodes(&self) -> NodeSet {
        self.rows.keys().copied().collect()
    }

    /// The average distance between the nodes of a set, each with itself too; 0 for the empty set. Unknown
    /// distances count as 0. Source: `NUMADistances.CalculateAverageFor`.
    pub fn average(&self, nodes: NodeSet) -> f64 {
        let place = |node| self.rows.keys().position(|id| *id == node);
        let mut sum = 0u64;
        for (from, to) in nodes.iter().flat_map(|from| nodes.iter().map(move |to| (from, to))) {
            let row = self.rows.get(&from).map(Vec::as_slice).unwrap_or_default();
            sum += place(to).and_then(|place| row.get(place)).copied().unwrap_or(0);
        }
        let pairs = nodes.len() * nodes.len();
        if pairs == 0 { 0.0 } else { sum as f64 / pairs as f64 }
    }
}
