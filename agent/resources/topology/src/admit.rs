//! Whether a pod is admitted, and what it gets: every provider of resources is asked for hints, the hints are
//! merged, and each provider allocates within the result (`topologymanager.Scope.Admit`).

use std::fmt;

use nodewarden_manifest::{Container, Pod};
use nodewarden_model::PodReason;

use crate::{Hint, Hints, Merger, Policy, Scope};

/// Something that gives resources to containers: CPUs, memory, devices.
pub trait Provider {
    /// From which NUMA nodes a container could get each resource.
    fn container_hints(&mut self, pod: &Pod, container: &Container) -> Hints;

    /// From which NUMA nodes the pod as a whole could get each resource.
    fn pod_hints(&mut self, pod: &Pod) -> Hints;

    /// Gives a container what it asks for. `affinity`: from which nodes, as merged. What it has already it
    /// keeps.
    ///
    /// # Errors
    /// Why it cannot have it; nothing was given then.
    fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        affinity: Hint,
    ) -> Result<Allocated, AllocateError>;

    /// Gives the pod as a whole what its own resources (KEP-2837) ask for, and each container its part.
    ///
    /// # Errors
    /// Why it cannot have it; nothing was given then.
    fn allocate_pod(&mut self, pod: &Pod, affinity: Hint) -> Result<Allocated, AllocateError>;

    /// Takes back what a container was given. Nothing happens if it has nothing.
    fn release(&mut self, pod_uid: &str, container: &str);
}

/// What [`Provider::allocate`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocated {
    /// Something was given that was not given before.
    Given,
    /// The container asks for nothing here, or has it already.
    Unchanged,
}

/// Why a provider could not allocate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllocateError {
    /// The reason that the pod's status shows; `None`: `UnexpectedAdmissionError`.
    pub reason: Option<PodReason>,
    /// What is missing.
    pub message: String,
}

/// Why a pod is not admitted, as in its status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    /// `status.reason`.
    pub reason: PodReason,
    /// `status.message`.
    pub message: String,
}

/// Admits a pod: gives every container of it what it asks for, or nothing to any. `pod_level`: whether pods
/// with resources of their own get them as a whole (the feature gate PodLevelResourceManagers).
///
/// The order of calls is the kubelet's. Unlike there, what the pod's earlier containers got in this call is
/// released when a later one is rejected.
///
/// # Errors
/// The pod is rejected. When the policy does not admit the merged hint, the message names the resources.
pub fn admit(
    merger: &Merger,
    providers: &mut [&mut dyn Provider],
    pod: &Pod,
    pod_level: bool,
) -> Result<(), Rejection> {
    let mut given = Vec::new();
    let result =
        allocate_all(merger, providers, pod, pod_level && pod.sets_pod_level_resources(), &mut given);
    if result.is_err() {
        for (provider, container) in given.iter().rev() {
            providers[*provider].release(&pod.uid, container);
        }
    }
    result
}

fn allocate_all(
    merger: &Merger,
    providers: &mut [&mut dyn Provider],
    pod: &Pod,
    pod_level: bool,
    given: &mut Vec<(usize, String)>,
) -> Result<(), Rejection> {
    let settings = merger.settings();
    let per_pod = settings.policy != Policy::None && settings.scope == Scope::Pod;
    let whole = match per_pod {
        true => {
            let hints: Vec<Hints> = providers.iter_mut().map(|provider| provider.pod_hints(pod)).collect();
            Some(affinity(merger, &hints, pod_level)?)
        }
        false => None,
    };
    if let Some(affinity) = whole.filter(|_| pod_level) {
        for (at, provider) in providers.iter_mut().enumerate() {
            if provider.allocate_pod(pod, affinity).map_err(rejection)? == Allocated::Given {
                let containers = pod.init_containers.iter().chain(&pod.containers);
                given.extend(containers.map(|container| (at, container.name.clone())));
            }
        }
        return Ok(());
    }
    for container in pod.init_containers.iter().chain(&pod.containers) {
        let affinity = match whole {
            Some(affinity) => affinity,
            None if settings.policy == Policy::None => Hint { affinity: None, preferred: false },
            None => {
                let hints: Vec<Hints> =
                    providers.iter_mut().map(|provider| provider.container_hints(pod, container)).collect();
                affinity(merger, &hints, false)?
            }
        };
        for (at, provider) in providers.iter_mut().enumerate() {
            if provider.allocate(pod, container, affinity).map_err(rejection)? == Allocated::Given {
                given.push((at, container.name.clone()));
            }
        }
    }
    Ok(())
}

fn affinity(merger: &Merger, hints: &[Hints], pod_level: bool) -> Result<Hint, Rejection> {
    let merged = merger.merge(hints);
    if merged.admit {
        return Ok(merged.hint);
    }
    Err(Rejection {
        reason: PodReason::TopologyAffinityError,
        message: NotAligned { merged: &merged.unaligned, pod_level }.to_string(),
    })
}

/// The kubelet's text, and the resources.
struct NotAligned<'a> {
    merged: &'a [String],
    pod_level: bool,
}

impl fmt::Display for NotAligned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.pod_level {
            true => {
                "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"
            }
            false => "Resources cannot be allocated with Topology locality",
        };
        write!(f, "{text}: {}", self.merged.join(", "))
    }
}

/// `admission.GetPodAdmitResult`.
fn rejection(error: AllocateError) -> Rejection {
    match error.reason {
        Some(reason) => Rejection { reason, message: error.message },
        None => Rejection {
            reason: PodReason::UnexpectedAdmissionError,
            message: format!("Allocate failed due to {}, which is unexpected", error.message),
        },
    }
}
