//! The CPU manager as one provider of the topology manager.

use nodewarden_manifest::{Container, Pod};
use nodewarden_topology::{AllocateError, Allocated, Hint, Hints, Provider};

use super::CpuManager;

impl Provider for CpuManager {
    fn container_hints(&mut self, pod: &Pod, container: &Container) -> Hints {
        self.hints(pod, container)
    }

    fn pod_hints(&mut self, pod: &Pod) -> Hints {
        Self::pod_hints(self, pod)
    }

    fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        affinity: Hint,
    ) -> Result<Allocated, AllocateError> {
        Ok(Self::allocate(self, pod, container, affinity)?)
    }

    fn allocate_pod(&mut self, pod: &Pod, affinity: Hint) -> Result<Allocated, AllocateError> {
        Ok(Self::allocate_pod(self, pod, affinity)?)
    }

    fn release(&mut self, pod_uid: &str, container: &str) {
        self.remove(pod_uid, container);
    }
}
