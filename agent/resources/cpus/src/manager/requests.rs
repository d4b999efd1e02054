//! How many CPUs a container or pod is to have for itself, by the settings.

use nodewarden_manifest::{Container, Pod};

use super::CpuManager;

impl CpuManager {
    /// CPUs for a container alone; 0 if it shares CPUs.
    pub(super) fn of_container(&self, pod: &Pod, container: &Container) -> usize {
        pod.exclusive_cpus(container, self.settings.pod_level)
    }

    /// CPUs for the pod as a whole.
    pub(super) fn of_pod(&self, pod: &Pod) -> usize {
        pod.exclusive_cpus_of_all(self.settings.pod_level)
    }

    /// Whether the manager leaves a pod alone because it has resources of its own.
    pub(super) fn leaves_alone(&self, pod: &Pod) -> bool {
        !self.settings.pod_level && pod.sets_pod_level_resources()
    }
}
