//! Families about the managed hierarchy: pod cgroups by state, corrected limits, current problems.

use std::time::UNIX_EPOCH;

use super::Own;
use crate::exposition::Exposition;
use crate::number::Value;
use nodewarden_model::{HierarchyStatus, NodeResource};

/// Writes the families of manage mode.
pub(super) fn write(out: &mut Exposition<'_>, status: &HierarchyStatus) {
    let failed = status.pods.iter().filter(|p| !p.problem.is_empty()).count();
    let counts = [
        ("ready", status.pods.len() - failed),
        ("failed", failed),
        ("removing", status.removing.len()),
        ("foreign", status.foreign.len()),
    ];
    let mut writer = out.family(Own::PodCgroups.desc());
    for (state, count) in counts {
        writer.sample(&[], &[("state", state)], Value::Int(count as u64), &[]);
    }
    resources(out, Own::NodeCapacity, status, |resource| resource.capacity);
    resources(out, Own::NodeAllocatable, status, |resource| resource.allocatable);
    out.single(Own::LimitCorrections.desc(), Value::Int(status.corrections));
    out.single(Own::HierarchyProblems.desc(), Value::Int(status.problems.len() as u64));
    out.single(Own::WithheldLimits.desc(), Value::Int(status.withheld_limits));
    if let Some(since) = status.last_reconcile.and_then(|t| t.duration_since(UNIX_EPOCH).ok()) {
        out.single(Own::LastReconcile.desc(), Value::Float(since.as_secs_f64()));
    }
}

/// Amounts of the node's resources, in the units of kube-state-metrics.
fn resources(
    out: &mut Exposition<'_>,
    family: Own,
    status: &HierarchyStatus,
    amount: fn(&NodeResource) -> u64,
) {
    let mut writer = out.family(family.desc());
    for resource in &status.resources {
        let amount = amount(resource);
        let (unit, value) = match resource.name.as_str() {
            NodeResource::CPU => ("core", Value::Float(amount as f64 / 1000.0)),
            _ if resource.is_bytes() => ("byte", Value::Int(amount)),
            _ => ("integer", Value::Int(amount)),
        };
        writer.sample(&[], &[("resource", resource.name.as_str()), ("unit", unit)], value, &[]);
    }
}
