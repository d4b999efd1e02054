//! The managers of CPUs, memory and NUMA topology: the kubelet's keys, with the kubelet's defaults. What they
//! mean on this machine is decided where the machine is known (`nodewarden-resource-managers`).

use std::collections::BTreeMap;
use std::time::Duration;

use nodewarden_machine::cpu_list::CpuList;
use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_manifest::names::is_hugepages;
use nodewarden_manifest::{Quantity, ResourceList};
use serde_yaml_ng::{Mapping, Value};

use crate::duration;
use crate::fields::{Fields, shown};
use crate::gates::FeatureGates;
use crate::shape::Shape;
use crate::show::{Map, pair};

const NODE: &str = "numaNode";
const LIMITS: &str = "limits";
const RESERVED_MEMORY: &str = "reservedMemory";
/// An entry of `reservedMemory`.
const NODE_RESERVATION: Shape = Shape::Keys(&[
    (NODE, Shape::Integer { least: 0, most: u32::MAX as i64 }),
    (LIMITS, Shape::Map(&Shape::AnyOf(&[Shape::Text, Shape::Number]))),
]);

/// Settings of the managers of CPUs, memory and topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceManagerSettings {
    /// `cpuManagerPolicy`: `none` or `static`.
    pub cpu_policy: String,
    /// `cpuManagerPolicyOptions`.
    pub cpu_options: BTreeMap<String, String>,
    /// `cpuManagerReconcilePeriod`: how often the CPUs of every container are compared with those that it
    /// should have.
    pub cpu_reconcile: Duration,
    /// `reservedSystemCPUs`; empty if not set.
    pub reserved_cpus: CpuSet,
    /// `memoryManagerPolicy`: `None` or `Static`.
    pub memory_policy: String,
    /// `reservedMemory`: NUMA node and what is reserved on it.
    pub reserved_memory: Vec<(u32, ResourceList)>,
    /// `topologyManagerPolicy`.
    pub topology_policy: String,
    /// `topologyManagerScope`: `container` or `pod`.
    pub topology_scope: String,
    /// `topologyManagerPolicyOptions`.
    pub topology_options: BTreeMap<String, String>,
    /// Feature gate `CPUManagerPolicyAlphaOptions`.
    pub cpu_alpha_options: bool,
    /// Feature gate `CPUManagerPolicyBetaOptions`.
    pub cpu_beta_options: bool,
    /// Feature gate `DisableCPUQuotaWithExclusiveCPUs`: containers with CPUs of their own have no CPU quota.
    pub no_quota_with_exclusive_cpus: bool,
    /// Feature gate `PodLevelResourceManagers`: pods with resources of their own get CPUs and memory as a
    /// whole.
    pub pod_level: bool,
}

impl Default for ResourceManagerSettings {
    fn default() -> Self {
        Self {
            cpu_policy: "none".to_owned(),
            cpu_options: BTreeMap::new(),
            cpu_reconcile: Duration::from_secs(10),
            reserved_cpus: CpuSet::default(),
            memory_policy: "None".to_owned(),
            reserved_memory: Vec::new(),
            topology_policy: "none".to_owned(),
            topology_scope: "container".to_owned(),
            topology_options: BTreeMap::new(),
            cpu_alpha_options: false,
            cpu_beta_options: true,
            no_quota_with_exclusive_cpus: true,
            pod_level: false,
        }
    }
}

impl ResourceManagerSettings {
    /// Whether the CPU manager's policy is `static`.
    pub fn has_static_cpus(&self) -> bool {
        self.cpu_policy == "static"
    }

    /// Whether the memory manager's policy is `Static`.
    pub fn has_static_memory(&self) -> bool {
        self.memory_policy == "Static"
    }
}

/// Reads the keys. `reserved_cpus` are those of `reservedSystemCPUs`.
pub(crate) fn take(
    top: &mut Fields<'_>,
    gates: FeatureGates,
    reserved_cpus: CpuSet,
) -> ResourceManagerSettings {
    let default = ResourceManagerSettings::default();
    let mut one_of = |key, names, default| top.choice(key, names, true).unwrap_or(default);
    let cpu_policy: String = one_of("cpuManagerPolicy", &["none", "static"], default.cpu_policy);
    let memory_policy = one_of("memoryManagerPolicy", &["None", "Static"], default.memory_policy);
    let policies = &["none", "best-effort", "restricted", "single-numa-node"];
    let topology_policy = one_of("topologyManagerPolicy", policies, default.topology_policy);
    let topology_scope = one_of("topologyManagerScope", &["container", "pod"], default.topology_scope);
    let cpu_options: BTreeMap<String, String> =
        top.text_map("cpuManagerPolicyOptions").unwrap_or_default().into_iter().collect();
    if cpu_policy == "none" && !cpu_options.is_empty() {
        let names: Vec<&str> = cpu_options.keys().map(String::as_str).collect();
        top.refuse("cpuManagerPolicyOptions", &names.join(", "), "cpuManagerPolicy: static, or no options");
    }
    ResourceManagerSettings {
        cpu_policy,
        cpu_options,
        cpu_reconcile: top
            .duration("cpuManagerReconcilePeriod")
            .filter(|time| !time.is_zero())
            .unwrap_or(default.cpu_reconcile),
        reserved_cpus,
        memory_policy,
        reserved_memory: reserved_memory(top),
        topology_policy,
        topology_scope,
        topology_options: top
            .text_map("topologyManagerPolicyOptions")
            .unwrap_or_default()
            .into_iter()
            .collect(),
        cpu_alpha_options: gates.cpu_manager_policy_alpha_options,
        cpu_beta_options: gates.cpu_manager_policy_beta_options,
        no_quota_with_exclusive_cpus: gates.disable_cpu_quota_with_exclusive_cpus,
        pod_level: gates.pod_level_resource_managers,
    }
}

/// The CPUs of a list like `0-1,4`; `None` if it is none.
pub(crate) fn cpus(list: &str) -> Option<CpuSet> {
    CpuList::parse(list).map(|list| list.iter().collect())
}

/// Reads `reservedMemory`; as in the kubelet, a NUMA node stands in it once for each type of memory.
fn reserved_memory(top: &mut Fields<'_>) -> Vec<(u32, ResourceList)> {
    let entries = top.list(RESERVED_MEMORY, &NODE_RESERVATION, "a list of numaNode and limits");
    let mut all: Vec<(u32, ResourceList)> = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let field = format!("{RESERVED_MEMORY}[{at}]");
        let number = entry.get(NODE).and_then(Value::as_u64).and_then(|node| u32::try_from(node).ok());
        let limits = entry.get(LIMITS).and_then(Value::as_mapping);
        let (Some(node), Some(limits)) = (number, limits) else {
            top.refuse(&field, &shown(entry), "numaNode (a number) and limits (amounts by type of memory)");
            continue;
        };
        let others = entry.as_mapping().into_iter().flat_map(Mapping::keys).filter_map(Value::as_str);
        for other in others.filter(|key| ![NODE, LIMITS].contains(key)) {
            top.refuse(&format!("{field}.{other}"), "unknown key", "numaNode or limits");
        }
        let mut list = ResourceList::new();
        for (name, amount) in limits {
            let name = shown(name);
            let field = format!("{field}.limits.{name}");
            if name != "memory" && !is_hugepages(&name) {
                top.refuse(&field, "unknown resource", "memory or hugepages-SIZE");
                continue;
            }
            match Quantity::parse(&shown(amount)) {
                Ok(quantity) if quantity.is_positive() => {
                    if all.iter().any(|(other, list)| *other == node && list.contains_key(&name)) {
                        top.refuse(&field, &shown(amount), "each type of memory once for each NUMA node");
                    }
                    list.insert(name, quantity);
                }
                _ => top.refuse(&field, &shown(amount), "an amount above 0 like 1Gi"),
            }
        }
        all.push((node, list));
    }
    all
}

/// Writes the keys.
pub(crate) fn show(top: &mut Map, managers: &ResourceManagerSettings) {
    let texts = |texts: &BTreeMap<String, String>| -> Option<Mapping> {
        let pairs = texts.iter().map(|(name, value)| pair(name, value.clone()));
        (!texts.is_empty()).then(|| pairs.collect())
    };
    top.put("cpuManagerPolicy", &*managers.cpu_policy);
    top.put_some("cpuManagerPolicyOptions", texts(&managers.cpu_options));
    top.put("cpuManagerReconcilePeriod", duration::show(managers.cpu_reconcile));
    let reserved = Some(&managers.reserved_cpus).filter(|cpus| !cpus.is_empty());
    top.put_some("reservedSystemCPUs", reserved.map(ToString::to_string));
    top.put("memoryManagerPolicy", &*managers.memory_policy);
    let memory = managers.reserved_memory.iter().map(|(node, limits)| {
        let limits: Mapping = limits.iter().map(|(name, amount)| pair(name, amount.to_string())).collect();
        Value::from(Mapping::from_iter([pair(NODE, *node), pair(LIMITS, limits)]))
    });
    let memory: Vec<Value> = memory.collect();
    top.put_some(RESERVED_MEMORY, (!memory.is_empty()).then_some(memory));
    top.put("topologyManagerPolicy", &*managers.topology_policy);
    top.put("topologyManagerScope", &*managers.topology_scope);
    top.put_some("topologyManagerPolicyOptions", texts(&managers.topology_options));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::read;

    #[test]
    fn every_key_is_read_and_written() {
        let config = read(
            "cpuManagerPolicy: static\ncpuManagerPolicyOptions: {full-pcpus-only: 'true'}\n\
             cpuManagerReconcilePeriod: 3s\nreservedSystemCPUs: 0-1,4\nmemoryManagerPolicy: Static\n\
             reservedMemory: [{numaNode: 0, limits: {memory: 1Gi, hugepages-2Mi: 4Mi}}, {numaNode: 1, limits: {memory: 2Gi}}]\n\
             topologyManagerPolicy: restricted\ntopologyManagerScope: pod\n\
             topologyManagerPolicyOptions: {prefer-closest-numa-nodes: 'true'}\n\
             featureGates: {CPUManagerPolicyAlphaOptions: true, DisableCPUQuotaWithExclusiveCPUs: false}\n",
        )
        .unwrap();
        let managers = &config.node.managers;
        assert!(config.ignored.is_empty(), "{:?}", config.ignored);
        assert!(managers.has_static_cpus() && managers.has_static_memory());
        assert_eq!(managers.reserved_cpus.to_string(), "0-1,4");
        assert_eq!(managers.cpu_reconcile, Duration::from_secs(3));
        assert_eq!(managers.reserved_memory.len(), 2);
        assert_eq!(
            (managers.topology_policy.as_str(), managers.topology_scope.as_str()),
            ("restricted", "pod")
        );
        assert!(managers.cpu_alpha_options && managers.cpu_beta_options);
        assert!(!managers.no_quota_with_exclusive_cpus && !managers.pod_level);
        // As in the kubelet, the number of these CPUs replaces both reservations.
        assert_eq!(config.node.system_reserved["cpu"].to_string(), "3");
        let again = crate::parse("again", &config.to_yaml(), &crate::Overrides::default()).unwrap();
        assert_eq!(again.node, config.node);
    }

    #[test]
    fn each_wrong_value_is_refused_by_its_name() {
        for (body, expected) in [
            ("cpuManagerPolicy: Static", "cpuManagerPolicy: Static: expected none or static"),
            ("memoryManagerPolicy: BestEffort", "memoryManagerPolicy: BestEffort: expected None or Static"),
            ("topologyManagerScope: node", "topologyManagerScope: node: expected container or pod"),
            (
                "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}",
                "cpuManagerPolicyOptions: full-pcpus-only: expected cpuManagerPolicy: static, or no options",
            ),
            (
                "reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]",
                "reservedMemory[0].limits.cpu: unknown resource: expected memory or hugepages-SIZE",
            ),
            (
                "reservedMemory: [{numaNode: 0, limits: {memory: 0}}]",
                "reservedMemory[0].limits.memory: 0: expected an amount above 0 like 1Gi",
            ),
            (
                "reservedMemory: [{numaNode: 0, limits: {memory: 1}}, {numaNode: 0, limits: {memory: 1}}]",
                "reservedMemory[1].limits.memory: 1: expected each type of memory once for each NUMA node",
            ),
        ] {
            let error = read(body).unwrap_err().to_string();
            assert!(error.contains(expected), "{body}: {error}");
        }
    }
}
