//! Takes over what a state file says that containers have.
//!
//! A kubelet does not start when the policy, the reserved CPUs or the CPUs that are online are not those of
//! the file. Here every container keeps what it can keep, and the rest is reported.

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_manifest::{Container, Pod};
use nodewarden_topology::CpuTopology;

use super::{Assignments, CpuManager};
use crate::{Policy, Settings};

/// Something that is not as the state file says, or not as the settings say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The policy is `none` now: the container shares all CPUs.
    #[error(
        "pod {pod_uid}, container {container}: CPUs {cpus} are no longer its own: the CPU manager policy is none"
    )]
    NoPolicy {
        /// The pod.
        pod_uid: String,
        /// The container; empty for the pod as a whole.
        container: String,
        /// What it had.
        cpus: CpuSet,
    },
    /// Some of its CPUs are not online; it keeps the others, or shares CPUs if there are none.
    #[error("pod {pod_uid}, container {container}: CPUs {cpus} of its own are not online")]
    Offline {
        /// The pod.
        pod_uid: String,
        /// The container; empty for the pod as a whole.
        container: String,
        /// Those that are not online.
        cpus: CpuSet,
    },
    /// Another pod has some of its CPUs too; it keeps the others, or shares CPUs if there are none.
    #[error("pod {pod_uid}, container {container}: CPUs {cpus} belong to another pod")]
    Taken {
        /// The pod.
        pod_uid: String,
        /// The container; empty for the pod as a whole.
        container: String,
        /// Those that another pod has.
        cpus: CpuSet,
    },
    /// Some of its CPUs are reserved now. It keeps them until it ends.
    #[error(
        "pod {pod_uid}, container {container}: CPUs {cpus} are reserved now; it keeps them until it ends"
    )]
    Reserved {
        /// The pod.
        pod_uid: String,
        /// The container; empty for the pod as a whole.
        container: String,
        /// Those that are reserved.
        cpus: CpuSet,
    },
    /// No CPU is left for containers that share CPUs; they run on the reserved ones.
    #[error(
        "every CPU that is not reserved is assigned: containers without CPUs of their own run on the reserved ones"
    )]
    NoneShared,
}

impl CpuManager {
    /// A manager with what `saved` says that containers have, and what of it could not be kept. Containers
    /// that no longer run are removed afterwards ([`Self::retain`]).
    pub fn restore(topology: CpuTopology, settings: Settings, saved: &Assignments) -> (Self, Vec<Finding>) {
        let mut manager = Self::new(topology, settings);
        let mut findings = Vec::new();
        let mut taken = CpuSet::default();
        let uids: std::collections::BTreeSet<&String> =
            saved.pods.keys().chain(saved.containers.keys()).collect();
        for uid in uids {
            let mut own = CpuSet::default();
            if let Some(all) = saved.pods.get(uid) {
                let kept = manager.kept(uid, "", all, &taken, &mut findings);
                own.add(&kept);
                if !kept.is_empty() && saved.containers.contains_key(uid) {
                    manager.assignments.pods.insert(uid.clone(), kept);
                }
            }
            for (container, cpus) in saved.containers.get(uid).into_iter().flatten() {
                let kept = manager.kept(uid, container, cpus, &taken, &mut findings);
                own.add(&kept);
                if !kept.is_empty() {
                    manager.assignments.set(uid, container, kept);
                }
            }
            if !manager.assignments.containers.contains_key(uid) {
                manager.assignments.pods.remove(uid);
            }
            taken.add(&own);
        }
        if !manager.assignments.containers.is_empty() && manager.unassigned().is_empty() {
            findings.push(Finding::NoneShared);
        }
        (manager, findings)
    }

    /// Gives a running container the CPUs that it is on, if it should have so many for itself and they are
    /// free. After the loss of the state file. Returns whether it has them now.
    pub fn recover(&mut self, pod: &Pod, container: &Container, cpus: &CpuSet) -> bool {
        let free =
            self.topology.all().difference(&self.settings.reserved).difference(&self.assignments.all());
        let should = self.settings.policy == Policy::Static
            && !cpus.is_empty()
            && self.of_container(pod, container) == cpus.len()
            && self.assignments.get(&pod.uid, &container.name).is_none()
            && cpus.is_subset(&free)
            && !self.unassigned().is_subset(cpus);
        if should {
            self.assignments.set(&pod.uid, &container.name, cpus.clone());
        }
        should
    }

    /// What a container or pod keeps of its CPUs.
    fn kept(
        &self,
        uid: &str,
        container: &str,
        cpus: &CpuSet,
        taken: &CpuSet,
        findings: &mut Vec<Finding>,
    ) -> CpuSet {
        let (pod_uid, container) = (uid.to_owned(), container.to_owned());
        if self.settings.policy == Policy::None {
            findings.push(Finding::NoPolicy { pod_uid, container, cpus: cpus.clone() });
            return CpuSet::default();
        }
        let offline = cpus.difference(self.topology.all());
        let kept = cpus.difference(&offline);
        let others = kept.intersection(taken);
        let kept = kept.difference(&others);
        let reserved = kept.intersection(&self.settings.reserved);
        let of = |cpus: CpuSet, make: fn(String, String, CpuSet) -> Finding| {
            (!cpus.is_empty()).then(|| make(pod_uid.clone(), container.clone(), cpus))
        };
        let offline = of(offline, |pod_uid, container, cpus| Finding::Offline { pod_uid, container, cpus });
        let others = of(others, |pod_uid, container, cpus| Finding::Taken { pod_uid, container, cpus });
        let reserved =
            of(reserved, |pod_uid, container, cpus| Finding::Reserved { pod_uid, container, cpus });
        findings.extend(offline.into_iter().chain(others).chain(reserved));
        kept
    }
}

#[cfg(test)]
mod tests;
