//! Containers' cgroups against what their runtime was told. The runtime makes them and sets their limits; here only
//! what somebody changed behind its back is put right (`systemctl daemon-reload` sets `memory.oom.group` back, say).

use std::sync::Arc;

use nodewarden_machine::cgroup::control::{CpuShare, Limits};
use nodewarden_machine::cgroup::identify;
use nodewarden_manifest::Pod;
use nodewarden_model::Identity;
use nodewarden_qos::container::{container_limits, parameters, sandbox_limits};
use nodewarden_qos::weight::weight_is_true;
use nodewarden_qos::{FormulaEvidence, Node, WeightFormula};

/// Who a container is, by the runtime's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    Sandbox,
    Named(String),
}

/// Gives an identity the names that the runtime knows.
pub type Namer = Box<dyn Fn(&Arc<Identity>) -> Arc<Identity> + Send>;

/// Who the cgroup at `path` is; `None` for what is no container, or one that the runtime has not named (yet).
pub fn who(path: &str, namer: &Namer) -> Option<Who> {
    match &*namer(&Arc::new(identify(path))) {
        Identity::Container { sandbox: true, .. } => Some(Who::Sandbox),
        Identity::Container { names: Some(names), .. } => Some(Who::Named(names.name.clone())),
        _ => None,
    }
}

/// What the files of one of the pod's containers should say, given what they say. `None` for a container that the pod
/// does not have.
///
/// A weight that either formula gives is right: the runtime's version decided, and a container keeps the weight it was
/// started with when the runtime is replaced. Another one is put right by the formula that the node's runtime was seen
/// to use; before one has been seen, it stays.
pub fn wanted(
    pod: &Pod,
    who: &Who,
    found: &Limits,
    evidence: &mut FormulaEvidence,
    node: Node<'_>,
) -> Option<Limits> {
    let name = match who {
        Who::Sandbox => return Some(sandbox_limits(node)),
        Who::Named(name) => name,
    };
    let container = pod.init_containers.iter().chain(&pod.containers).find(|c| c.name == *name)?;
    let told = parameters(pod, container, node);
    let formula: Option<WeightFormula> = match found.cpu {
        Some(CpuShare::Weight(weight)) => {
            evidence.observe(told.cpu_shares, weight);
            evidence.formula()
        }
        _ => None,
    };
    let mut limits = container_limits(&told, formula, node);
    if let Some(CpuShare::Weight(weight)) = found.cpu
        && weight_is_true(told.cpu_shares, weight)
    {
        limits.cpu = found.cpu;
    }
    Some(limits)
}

#[cfg(test)]
#[path = "containers_tests.rs"]
mod tests;
