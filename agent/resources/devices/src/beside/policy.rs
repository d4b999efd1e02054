//! Which devices are watched, and what each pod may open of them. Pure.
//!
//! Beside a kubelet only the devices of device plugins and resource claims are watched: of others it is not
//! known whom they were given to. The kernel program knows pods, not containers: what one container was
//! given, the pod may open.

use std::collections::{BTreeMap, BTreeSet};

use nodewarden_config::Enforcement;
use nodewarden_ebpf_abi::{DEVICE_BLOCK, DEVICE_CHAR, is_default_device};
use nodewarden_manifest::Pod;
use nodewarden_model::{HostDevice, HostDeviceKind};

use super::held::Held;
use super::node::{Numbers, numbers};
use crate::policy::{Access, DeviceRule, PodPolicy, Scope};

/// The devices that are watched: those that containers have, those that had been given, and those that
/// `belong` to a resource by the configuration or by CDI files. Not what every container may open.
pub fn watched(held: &[Held], before: &BTreeSet<Numbers>, belong: &[HostDevice]) -> BTreeSet<Numbers> {
    let given = held.iter().flat_map(|own| &own.grants).map(|grant| numbers(&grant.device));
    let all = given.chain(before.iter().copied()).chain(belong.iter().map(numbers));
    all.filter(|(kind, major, minor)| !is_default_device(kind_of(*kind), *major, *minor)).collect()
}

fn kind_of(kind: HostDeviceKind) -> u32 {
    match kind {
        HostDeviceKind::Block => DEVICE_BLOCK,
        HostDeviceKind::Char => DEVICE_CHAR,
    }
}

/// A pod and what is known of it.
#[derive(Debug)]
pub struct Known<'a> {
    pub pod: &'a Pod,
    /// It wants to be left alone.
    pub opted_out: bool,
    /// What the kubelet says of it agrees with its checkpoint. A kubelet that has just started does not know
    /// all its pods.
    pub listed: bool,
    /// It has a container, and the runtime has said of all of them which devices they have.
    pub settled: bool,
    /// Every container of its spec that runs as long as the pod is among them.
    pub complete: bool,
    /// Device nodes that its spec names (`hostPath`).
    pub by_spec: &'a [DeviceRule],
    /// Device nodes of its containers by their runtime.
    pub by_runtime: &'a [HostDevice],
}

/// What is done about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Its accesses are found out from now on.
    Guard(PodPolicy),
    /// It may open everything, for this reason.
    Leave(&'static str),
    /// It is too early to say: what was said before holds.
    Wait,
}

/// What is done about a pod which has this of resources.
pub fn decide(mode: Enforcement, known: &Known<'_>, held: &[&Held]) -> Decision {
    if mode == Enforcement::Off {
        return Decision::Leave("off");
    }
    if known.opted_out {
        return Decision::Leave("opted out");
    }
    if is_privileged(known.pod) {
        return Decision::Leave("privileged: it was given every device");
    }
    if held.iter().any(|own| own.unknown.is_some()) {
        return Decision::Leave("the nodes of some of its devices are not known");
    }
    // Devices of claims are known only once they are prepared, which is after the pod has a cgroup.
    if !known.listed || !known.settled || has_claims(known.pod) && !known.complete {
        return Decision::Wait;
    }
    let mut rules = BTreeMap::<Numbers, Access>::new();
    let mut add = |device: Numbers, access: Access| {
        let own = rules.entry(device).or_default();
        *own = *own | access;
    };
    for grant in held.iter().flat_map(|own| &own.grants) {
        add(numbers(&grant.device), grant.access);
    }
    // The numbers are what the container has, whatever is at the path by now.
    known.by_runtime.iter().for_each(|device| add(numbers(device), Access::ALL));
    for rule in known.by_spec {
        if let Some(minor) = rule.minor {
            add((rule.kind, rule.major, minor), rule.access);
        }
    }
    let rule = |((kind, major, minor), access)| DeviceRule { kind, major, minor: Some(minor), access };
    let rules = rules.into_iter().filter(|(_, access)| !access.is_empty()).map(rule).collect();
    Decision::Guard(PodPolicy { mode, rules, scope: Scope::Watched })
}

/// Whether one of its containers may open every device.
pub fn is_privileged(pod: &Pod) -> bool {
    let spec = pod.spec();
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let contexts =
        containers.map(|own| &own.security_context).chain(ephemeral.map(|own| &own.security_context));
    contexts.flatten().any(|context| context.privileged == Some(true))
}

fn has_claims(pod: &Pod) -> bool {
    pod.spec().resource_claims.as_ref().is_some_and(|claims| !claims.is_empty())
}

#[cfg(test)]
mod tests;
