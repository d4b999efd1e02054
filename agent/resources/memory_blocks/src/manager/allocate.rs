//! Gives memory to a container.

use nodewarden_manifest::{Container, ContainerKind, Pod, QosClass};
use nodewarden_topology::{Allocated, Hint, NodeSet};

use super::MemoryManager;
use super::requests::Request;
use crate::{Block, MemoryError, Policy};

impl MemoryManager {
    /// Gives a container of a Guaranteed pod its memory, from `affinity` or more nodes (`Allocate`). A
    /// container that has memory keeps it.
    ///
    /// # Errors
    /// It cannot have it; nothing was given.
    pub fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        affinity: Hint,
    ) -> Result<Allocated, MemoryError> {
        if self.settings.policy == Policy::None || pod.qos != QosClass::Guaranteed || self.leaves_alone(pod) {
            return Ok(Allocated::Unchanged);
        }
        if let Some(blocks) = self.blocks.get(&pod.uid, &container.name).cloned() {
            self.note_reusable(pod, container, &blocks);
            return Ok(Allocated::Unchanged);
        }
        let request = self.of_container(pod, container);
        if request.is_empty() {
            // It is noted as one that has been asked for, as by the kubelet.
            self.blocks.set(&pod.uid, &container.name, Vec::new());
            return Ok(Allocated::Given);
        }
        let nodes = self.choose(&pod.uid, &request, affinity)?;
        let block =
            |(resource, size): (&String, &u64)| Block { nodes, resource: resource.clone(), size: *size };
        let blocks: Vec<Block> = request.iter().map(block).collect();
        for block in &blocks {
            let reused = self.reusable(&pod.uid, nodes, &block.resource);
            self.machine.take(nodes, &block.resource, block.size.saturating_sub(reused));
        }
        self.note_reusable(pod, container, &blocks);
        self.blocks.set(&pod.uid, &container.name, blocks.clone());
        self.shrink_init_containers(pod, container, &blocks);
        Ok(Allocated::Given)
    }

    /// The nodes from which a request is given: those of `affinity`, or the best if it has none, and more of
    /// them if they have not enough.
    pub(super) fn choose(
        &self,
        pod_uid: &str,
        request: &Request,
        affinity: Hint,
    ) -> Result<NodeSet, MemoryError> {
        if let Some(unknown) = request.keys().find(|resource| !self.machine.knows(resource)) {
            return Err(MemoryError::NoSuchType(unknown.clone()));
        }
        let (mut nodes, preferred) = match affinity.affinity {
            Some(nodes) => (nodes, affinity.preferred),
            None => {
                let best = self.best(pod_uid, request, NodeSet::EMPTY).ok_or(MemoryError::NoNodes)?;
                if affinity.preferred && !best.1 {
                    return Err(MemoryError::NotPreferred);
                }
                best
            }
        };
        let has = |nodes: NodeSet| {
            let free = |resource: &String| self.machine.sum(nodes, resource, |table| table.free);
            request.iter().all(|(resource, bytes)| free(resource) >= *bytes)
        };
        // The kubelet does not check this for one node, and so breaks the group up.
        let in_group = nodes.len() == 1 && !self.machine.fits_groups(nodes);
        if in_group || !has(nodes) {
            let extended = self.best(pod_uid, request, nodes).ok_or(MemoryError::NotExtended)?;
            if preferred && !extended.1 {
                return Err(MemoryError::ExtendedNotPreferred);
            }
            nodes = extended.0;
        }
        if self.machine.fits_groups(nodes) { Ok(nodes) } else { Err(MemoryError::Groups) }
    }

    /// Notes which memory of the pod's init containers the next containers can use
    /// (`updatePodReusableMemory`).
    fn note_reusable(&mut self, pod: &Pod, container: &Container, blocks: &[Block]) {
        if self.reusable.0 != pod.uid {
            self.reusable = (pod.uid.clone(), Default::default());
        }
        for block in blocks {
            let known = self.reusable.1.entry((block.nodes, block.resource.clone())).or_default();
            *known = match container.kind {
                ContainerKind::Init => (*known).max(block.size),
                _ => known.saturating_sub(block.size),
            };
        }
    }

    /// Takes from the blocks of earlier init containers what this container uses of them, so that the blocks
    /// of a pod are together what is taken from the machine (`updateInitContainersMemoryBlocks`).
    fn shrink_init_containers(&mut self, pod: &Pod, container: &Container, blocks: &[Block]) {
        let Some(all) = self.blocks.containers.get_mut(&pod.uid) else { return };
        for block in blocks {
            let mut rest = block.size;
            let earlier = pod.init_containers.iter().take_while(|init| init.name != container.name);
            for init in earlier.filter(|init| init.kind == ContainerKind::Init) {
                for own in all.get_mut(&init.name).into_iter().flatten() {
                    if own.resource == block.resource && own.nodes == block.nodes {
                        let part = rest.min(own.size);
                        own.size -= part;
                        rest -= part;
                    }
                }
            }
        }
    }
}
