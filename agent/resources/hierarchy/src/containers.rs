//! The limits of container cgroups. The runtime creates them and sets their limits; this only corrects limits
//! that were changed from outside afterwards (for example, `systemctl daemon-reload` resets
//! `memory.oom.group`).

use std::sync::Arc;

use nodewarden_machine::cgroup::control::{CpuShare, Limits};
use nodewarden_machine::cgroup::identify;
use nodewarden_manifest::Pod;
use nodewarden_model::Identity;
use nodewarden_qos::container::{container_limits, parameters, sandbox_limits};
use nodewarden_qos::weight::weight_is_true;
use nodewarden_qos::{FormulaEvidence, Node, WeightFormula};

/// Which container of a pod a cgroup is, as reported by the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerKind {
    Sandbox,
    Named(String),
}

/// Adds the names that the runtime reports to an identity.
pub type Namer = Box<dyn Fn(&Arc<Identity>) -> Arc<Identity> + Send>;

/// The container of the cgroup at `path`; `None` if it is not a container's or the runtime has not named it
/// (yet).
pub fn container_at(path: &str, namer: &Namer) -> Option<ContainerKind> {
    match &*namer(&Arc::new(identify(path))) {
        Identity::Container { sandbox: true, .. } => Some(ContainerKind::Sandbox),
        Identity::Container { names: Some(names), .. } => Some(ContainerKind::Named(names.name.clone())),
        _ => None,
    }
}

/// The wanted limits of one of the pod's containers, given the `found` ones. `None` for a container that the
/// pod does not have.
///
/// A weight that either formula gives is accepted: it depends on the runtime's version, and a container keeps
/// the weight it was started with when the runtime is replaced. Another weight is corrected by the formula
/// that the node's runtime was seen to use; until one was seen, it is left alone.
pub fn wanted(
    pod: &Pod,
    who: &ContainerKind,
    found: &Limits,
    evidence: &mut FormulaEvidence,
    node: Node<'_>,
) -> Option<Limits> {
    let name = match who {
        ContainerKind::Sandbox => return Some(sandbox_limits(node)),
        ContainerKind::Named(name) => name,
    };
    let container = pod.init_containers.iter().chain(&pod.containers).find(|c| c.name == *name)?;
    let given = parameters(pod, container, node);
    let formula: Option<WeightFormula> = match found.cpu {
        Some(CpuShare::Weight(weight)) => {
            evidence.observe(given.cpu_shares, weight);
            evidence.formula()
        }
        _ => None,
    };
    let mut limits = container_limits(&given, formula, node);
    if let Some(CpuShare::Weight(weight)) = found.cpu
        && weight_is_true(given.cpu_shares, weight)
    {
        limits.cpu = found.cpu;
    }
    Some(limits)
}

#[cfg(test)]
mod tests;
