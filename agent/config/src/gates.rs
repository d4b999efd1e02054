//! Feature gates: those of the kubelet's that change what is done here.

pub(crate) mod table;

use crate::fields::Fields;
use crate::keys::meant;
use table::{GATES, GateMeaning};

/// The kubelet's feature gates that are known here, with its defaults (pkg/features/kube_features.go, 1.35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureGates {
    /// `CPUManagerPolicyAlphaOptions`: options of the CPU manager that are alpha may be set.
    pub cpu_manager_policy_alpha_options: bool,
    /// `CPUManagerPolicyBetaOptions`: options of the CPU manager that are beta may be set.
    pub cpu_manager_policy_beta_options: bool,
    /// `CustomCPUCFSQuotaPeriod`: `cpuCFSQuotaPeriod` may be set.
    pub custom_cpu_cfs_quota_period: bool,
    /// `DefaultPodSysctls` (KEP-5996): `defaultPodSysctls` may be set.
    pub default_pod_sysctls: bool,
    /// `DisableCPUQuotaWithExclusiveCPUs`: containers with CPUs of their own have no CPU quota.
    pub disable_cpu_quota_with_exclusive_cpus: bool,
    /// `KubeletCrashLoopBackOffMax` (KEP-4603): `crashLoopBackOff` may be set.
    pub crash_loop_back_off_max: bool,
    /// `ImageMaximumGCAge` (KEP-4210): `imageMaximumGCAge` may be set.
    pub image_maximum_gc_age: bool,
    /// `MemoryQoS` (KEP-2570).
    pub memory_qos: bool,
    /// `NodeSwap` (KEP-2400): `memorySwap` may be set.
    pub node_swap: bool,
    /// `PodLevelResourceManagers` (KEP-5526): pods with resources of their own get CPUs and memory as a
    /// whole.
    pub pod_level_resource_managers: bool,
    /// `QOSReserved`: `qosReserved` is acted on.
    pub qos_reserved: bool,
    /// `ReduceDefaultCrashLoopBackOffDecay` (KEP-4603): 1 s to 1 min instead of 10 s to 5 min.
    pub reduce_crash_loop_back_off: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self {
            cpu_manager_policy_alpha_options: false,
            cpu_manager_policy_beta_options: true,
            custom_cpu_cfs_quota_period: false,
            default_pod_sysctls: false,
            disable_cpu_quota_with_exclusive_cpus: true,
            crash_loop_back_off_max: true,
            image_maximum_gc_age: true,
            memory_qos: false,
            node_swap: true,
            pod_level_resource_managers: false,
            qos_reserved: false,
            reduce_crash_loop_back_off: false,
        }
    }
}

/// Name that sets all alpha gates that are not set individually.
const ALL_ALPHA: &str = "AllAlpha";

impl FeatureGates {
    /// Name and state of each gate that has an effect.
    pub fn list(mut self) -> Vec<(&'static str, bool)> {
        let effective = GATES.iter().filter_map(|gate| match gate.meaning {
            GateMeaning::Done { place, .. } => Some((gate.name, *place(&mut self))),
            GateMeaning::NoEffect(_) => None,
        });
        effective.collect()
    }

    /// Reads `featureGates`.
    pub fn take(top: &mut Fields<'_>) -> Self {
        let mut gates = Self::default();
        let given = top.switches("featureGates");
        if let Some(on) = given.get(ALL_ALPHA) {
            for gate in GATES {
                if let GateMeaning::Done { place, alpha: true, .. } = gate.meaning {
                    *place(&mut gates) = *on;
                }
            }
        }
        for (name, on) in given {
            if name == ALL_ALPHA {
                continue;
            }
            let field = format!("featureGates.{name}");
            match GATES.iter().find(|gate| gate.name == name).map(|gate| gate.meaning) {
                Some(GateMeaning::Done { place, .. }) => *place(&mut gates) = on,
                Some(GateMeaning::NoEffect(reason)) => top.without_effect(&field, reason),
                None => match meant(&name, GATES.iter().map(|gate| gate.name)) {
                    Some(near) => top.refuse(
                        &field,
                        "unknown feature gate",
                        &format!("a feature gate of the kubelet (did you mean {near}?)"),
                    ),
                    None => top.without_effect(&field, "no feature gate that changes what is done here"),
                },
            }
        }
        gates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::tests::read;

    /// Turned to what it is not by default, every gate of the table that has an effect changes the settings,
    /// and no other one does.
    #[test]
    fn the_gates_with_an_effect_are_those_of_the_table() {
        let default = read("").unwrap().gates;
        for gate in GATES {
            for on in [true, false] {
                let config = read(&format!("featureGates: {{{}: {on}}}", gate.name)).unwrap();
                match gate.meaning {
                    GateMeaning::Done { .. } => {
                        assert!(config.ignored.is_empty(), "{}", gate.name);
                        let known = default.list().into_iter().find(|(name, _)| *name == gate.name);
                        assert_eq!(config.gates == default, known == Some((gate.name, on)), "{}", gate.name);
                    }
                    GateMeaning::NoEffect(reason) => {
                        assert_eq!(config.gates, default);
                        assert_eq!(config.ignored.len(), 1);
                        assert_eq!(
                            config.ignored[0].to_string(),
                            format!("featureGates.{}: {reason}", gate.name)
                        );
                    }
                }
            }
        }
        assert!(GATES.windows(2).all(|pair| pair[0].name < pair[1].name), "sorted, each once");
    }

    #[test]
    fn groups_set_what_is_not_set_by_name() {
        let gates = |body: &str| read(&format!("featureGates: {{{body}}}")).unwrap().gates;
        let alpha = gates("AllAlpha: true, MemoryQoS: false");
        assert!(alpha.qos_reserved && alpha.custom_cpu_cfs_quota_period && !alpha.memory_qos);
        assert_eq!(alpha.node_swap, FeatureGates::default().node_swap);
    }
}
