//! Chooses CPUs of a set of free ones (`cpu_assignment.go`).

mod balance;
mod collect;
mod distributed;
#[cfg(test)]
mod golden;

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_topology::CpuTopology;

use collect::Collector;
pub use distributed::distributed;

/// In which order CPUs are taken that are not taken by whole sockets, NUMA nodes or caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sorting {
    /// Whole cores first.
    #[default]
    Packed,
    /// By number, so that a container is spread over cores (`distribute-cpus-across-cores`).
    Spread,
}

/// There are fewer free CPUs than wanted. The text is the kubelet's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not enough cpus available to satisfy request: requested={requested}, available={available}")]
pub struct NotEnough {
    /// The number of CPUs wanted.
    pub requested: usize,
    /// The number of free CPUs.
    pub available: usize,
}

/// Takes `wanted` CPUs of `free`, of as few units as possible: whole sockets and NUMA nodes, with `by_cache`
/// then CPUs of one level 3 cache, whole cores, single CPUs; of several units always the one with the fewest
/// free CPUs (`takeByTopologyNUMAPacked`).
///
/// A unit counts as free when all of its own CPUs are. The kubelet compares with the machine's average, and
/// so may give CPUs away that are not free.
///
/// # Errors
/// When fewer are free.
pub fn packed(
    topology: &CpuTopology,
    free: &CpuSet,
    wanted: usize,
    sorting: Sorting,
    by_cache: bool,
) -> Result<CpuSet, NotEnough> {
    let mut collector = Collector::new(topology, free, wanted);
    if wanted > collector.free_count() {
        return Err(NotEnough { requested: wanted, available: free.len() });
    }
    collector.take_sockets_and_nodes();
    if by_cache {
        collector.take_caches();
    }
    if sorting == Sorting::Packed {
        collector.take_cores();
    }
    collector.take_single(sorting);
    Ok(collector.taken())
}
