//! Gives CPUs to a container.

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_manifest::{Container, ContainerKind, Pod};
use nodewarden_topology::{Allocated, Hint, NodeSet};

use super::CpuManager;
use crate::{CpuError, NotEnough, Policy};

impl CpuManager {
    /// Gives a container CPUs of its own if it is to have some, from `affinity` as far as these have enough
    /// (`Allocate`). A container that has CPUs keeps them: this is asked before anything is checked, so that
    /// a running pod is not rejected after a restart because the machine is full.
    ///
    /// # Errors
    /// It cannot have them; nothing was given.
    pub fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        affinity: Hint,
    ) -> Result<Allocated, CpuError> {
        let requested = self.of_container(pod, container);
        if self.settings.policy == Policy::None || requested == 0 || self.leaves_alone(pod) {
            return Ok(Allocated::Unchanged);
        }
        if let Some(cpus) = self.assignments.get(&pod.uid, &container.name).cloned() {
            self.note_reusable(pod, container, &cpus);
            return Ok(Allocated::Unchanged);
        }
        self.check_cores(requested)?;
        let cpus = self.choose(requested, affinity.affinity, &self.reusable(&pod.uid))?;
        self.assignments.set(&pod.uid, &container.name, cpus.clone());
        self.note_reusable(pod, container, &cpus);
        Ok(Allocated::Given)
    }

    /// Chooses CPUs of those that can be given and of `reusable` (`allocateCPUs`).
    pub(super) fn choose(
        &self,
        requested: usize,
        affinity: Option<NodeSet>,
        reusable: &CpuSet,
    ) -> Result<CpuSet, CpuError> {
        let free = self.available().union(reusable);
        let mut cpus = self.choose_of(&free, requested, affinity)?;
        if self.settings.options.full_cores && self.topology.only_whole_cores(&cpus) != cpus {
            // The kubelet gives these away. Only cores that are free as a whole are left over then.
            let whole = self.topology.only_whole_cores(&free);
            let error = CpuError::TooFewCores {
                available: whole.len(),
                requested,
                per_core: self.topology.cpus_per_core(),
            };
            cpus = self.choose_of(&whole, requested, affinity).map_err(|_| error.clone())?;
            if self.topology.only_whole_cores(&cpus) != cpus {
                return Err(error);
            }
        }
        if self.unassigned().is_subset(&cpus) {
            return Err(CpuError::EmptySharedPool { requested });
        }
        Ok(cpus)
    }

    fn choose_of(
        &self,
        free: &CpuSet,
        requested: usize,
        affinity: Option<NodeSet>,
    ) -> Result<CpuSet, NotEnough> {
        let options = &self.settings.options;
        let mut cpus = CpuSet::default();
        if let Some(nodes) = affinity {
            let aligned = free.intersection(&self.aligned(nodes));
            cpus = options.take(&self.topology, &aligned, requested.min(aligned.len()))?;
        }
        let rest = options.take(&self.topology, &free.difference(&cpus), requested - cpus.len())?;
        Ok(cpus.union(&rest))
    }

    /// The CPUs of these nodes, with `align-by-socket` those of their sockets (`getAlignedCPUs`).
    fn aligned(&self, nodes: NodeSet) -> CpuSet {
        match self.settings.options.by_socket {
            true => self
                .topology
                .sockets_of_nodes(nodes)
                .iter()
                .fold(CpuSet::default(), |all, socket| all.union(&socket.cpus)),
            false => self.topology.cpus_of_nodes(nodes),
        }
    }

    /// With `full-pcpus-only`: whether that many CPUs can be whole cores (`enforceSMTAlignment`).
    pub(super) fn check_cores(&self, requested: usize) -> Result<(), CpuError> {
        let per_core = self.topology.cpus_per_core();
        if !self.settings.options.full_cores {
            return Ok(());
        }
        if !requested.is_multiple_of(per_core) {
            return Err(CpuError::PartOfCore { requested, per_core });
        }
        let available = self.unassigned().difference(&self.reserved_cores).len();
        match requested > available {
            true => Err(CpuError::TooFewCores { available, requested, per_core }),
            false => Ok(()),
        }
    }

    /// Notes which CPUs of the pod's init containers the next containers can use (`updateCPUsToReuse`).
    fn note_reusable(&mut self, pod: &Pod, container: &Container, cpus: &CpuSet) {
        let known = self.reusable(&pod.uid);
        let reusable = match container.kind {
            ContainerKind::Init => known.union(cpus),
            _ => known.difference(cpus),
        };
        self.reusable = (pod.uid.clone(), reusable);
    }
}
