//! Collects CPUs unit by unit (`cpuAccumulator`).

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_topology::{CpuTopology, Unit};

use super::Sorting;

/// CPUs that are taken, and those that are still free.
pub(super) struct Collector<'a> {
    topology: &'a CpuTopology,
    free: CpuSet,
    needed: usize,
    taken: CpuSet,
    /// Whether NUMA nodes are the larger units: there are no more of them than sockets.
    nodes_first: bool,
}

impl<'a> Collector<'a> {
    /// Nothing taken of the CPUs in `free` that are online.
    pub fn new(topology: &'a CpuTopology, free: &CpuSet, needed: usize) -> Self {
        let nodes_first = topology.sockets().len() >= topology.nodes().len();
        let free = free.intersection(topology.all());
        Self { topology, free, needed, taken: CpuSet::default(), nodes_first }
    }

    /// The CPUs that are not taken.
    pub fn free(&self) -> &CpuSet {
        &self.free
    }

    /// Their number.
    pub fn free_count(&self) -> usize {
        self.free.len()
    }

    /// The CPUs that were taken.
    pub fn taken(self) -> CpuSet {
        self.taken
    }

    /// Takes these CPUs.
    pub fn take(&mut self, cpus: &CpuSet) {
        self.taken.add(cpus);
        self.free = self.free.difference(cpus);
        self.needed = self.needed.saturating_sub(cpus.len());
    }

    /// Takes whole sockets and NUMA nodes, the larger units first.
    pub fn take_sockets_and_nodes(&mut self) {
        let first = if self.nodes_first { self.nodes() } else { self.sockets() };
        self.take_whole(&first);
        let second = if self.nodes_first { self.sockets() } else { self.nodes() };
        self.take_whole(&second);
    }

    /// Takes whole caches, and then what is missing from one cache (`takeUncoreCache`).
    pub fn take_caches(&mut self) {
        for cache in self.caches() {
            if self.needed >= self.topology.cpus_per_cache() {
                let caches = self.caches();
                self.take_whole(&caches);
            }
            if self.needed == 0 {
                return;
            }
            self.take_rest_of_cache(cache);
            if self.needed == 0 {
                return;
            }
        }
    }

    /// Takes whole cores.
    pub fn take_cores(&mut self) {
        let cores = self.cores();
        self.take_whole(&cores);
    }

    /// Takes CPUs one by one until there are enough.
    pub fn take_single(&mut self, sorting: Sorting) {
        let units = if sorting == Sorting::Spread { self.sockets() } else { self.cores() };
        let order: Vec<u32> = units
            .iter()
            .flat_map(|unit| self.free.intersection(&unit.cpus).iter().collect::<Vec<_>>())
            .collect();
        self.take(&order.into_iter().take(self.needed).collect());
    }

    /// Takes the units that are free and not larger than what is needed.
    fn take_whole(&mut self, units: &[&'a Unit]) {
        let whole: Vec<_> = units.iter().filter(|unit| self.count(unit) == unit.size).collect();
        for unit in whole {
            if self.needed >= unit.cpus.len() {
                self.take(&unit.cpus);
            }
        }
    }

    /// Takes what is needed from the cores of one cache, if it is exactly what the cores have that are needed
    /// (`takePartialUncore`). A core with one free thread counts as a core.
    fn take_rest_of_cache(&mut self, cache: &Unit) {
        let per_core = self.topology.cpus_per_core();
        let here = self.free.intersection(&cache.cpus);
        let cores = self.topology.cores().iter().filter(|core| core.cpus.common(&here) > 0);
        let mut chosen = CpuSet::default();
        cores
            .take(self.needed.div_ceil(per_core))
            .for_each(|core| chosen.add(&self.free.intersection(&core.cpus)));
        if !self.needed.is_multiple_of(2) && per_core > 1 && chosen.len() > self.needed {
            chosen = chosen.iter().take(chosen.len() - 1).collect();
        }
        if chosen.len() == self.needed {
            self.take(&chosen);
        }
    }

    /// The number of free CPUs of a unit.
    fn count(&self, unit: &Unit) -> usize {
        self.free.common(&unit.cpus)
    }

    /// The units that have a CPU in `within`, those with the fewest free CPUs first, then by number.
    fn sorted(&self, units: &'a [Unit], within: &CpuSet) -> Vec<&'a Unit> {
        let mut units: Vec<(usize, &Unit)> = units
            .iter()
            .filter(|unit| unit.cpus.common(within) > 0)
            .map(|unit| (self.count(unit), unit))
            .collect();
        units.sort_by_key(|(count, unit)| (*count, unit.id));
        units.into_iter().map(|(_, unit)| unit).collect()
    }

    /// The units in the order of what they are part of, sorted within each.
    fn within(&self, larger: &[&'a Unit], units: &'a [Unit]) -> Vec<&'a Unit> {
        larger.iter().flat_map(|unit| self.sorted(units, &self.free.intersection(&unit.cpus))).collect()
    }

    /// The NUMA nodes with free CPUs (`sortAvailableNUMANodes`).
    pub fn nodes(&self) -> Vec<&'a Unit> {
        match self.nodes_first {
            true => self.sorted(self.topology.nodes(), &self.free),
            false => self.within(&self.sockets(), self.topology.nodes()),
        }
    }

    /// The sockets with free CPUs (`sortAvailableSockets`).
    fn sockets(&self) -> Vec<&'a Unit> {
        match self.nodes_first {
            true => self.within(&self.nodes(), self.topology.sockets()),
            false => self.sorted(self.topology.sockets(), &self.free),
        }
    }

    /// The level 3 caches with free CPUs (`sortAvailableUncoreCaches`).
    fn caches(&self) -> Vec<&'a Unit> {
        self.within(&self.nodes(), self.topology.caches())
    }

    /// The cores with free CPUs (`sortAvailableCores`).
    fn cores(&self) -> Vec<&'a Unit> {
        let larger = if self.nodes_first { self.sockets() } else { self.nodes() };
        self.within(&larger, self.topology.cores())
    }
}
