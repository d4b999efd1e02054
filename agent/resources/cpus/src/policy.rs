//! `cpuManagerPolicy`, `cpuManagerPolicyOptions` and `reservedSystemCPUs`.

use std::collections::BTreeMap;

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_topology::{CpuTopology, go_bool};

use crate::{SettingsError, Sorting, distributed, packed};

const FULL_CORES: &str = "full-pcpus-only";
const ACROSS_NUMA: &str = "distribute-cpus-across-numa";
const BY_SOCKET: &str = "align-by-socket";
const ACROSS_CORES: &str = "distribute-cpus-across-cores";
const STRICT: &str = "strict-cpu-reservation";
const BY_CACHE: &str = "prefer-align-cpus-by-uncorecache";

/// `cpuManagerPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// Every container runs on all CPUs.
    #[default]
    None,
    /// A container of a Guaranteed pod that asks for whole CPUs has them for itself.
    Static,
}

impl Policy {
    /// The policy of this name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(name: &str) -> Result<Self, SettingsError> {
        [Self::None, Self::Static]
            .into_iter()
            .find(|policy| policy.name() == name)
            .ok_or_else(|| SettingsError::Policy(name.to_owned()))
    }

    /// Its name in the settings and in the state file.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Static => "static",
        }
    }
}

/// `cpuManagerPolicyOptions` of the policy `static`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// `full-pcpus-only`: only whole cores are given.
    pub full_cores: bool,
    /// `distribute-cpus-across-numa`: evenly from several NUMA nodes where one does not do.
    pub across_numa: bool,
    /// `align-by-socket`: NUMA nodes of one socket are as good as one NUMA node.
    pub by_socket: bool,
    /// `distribute-cpus-across-cores`: single CPUs of many cores.
    pub across_cores: bool,
    /// `strict-cpu-reservation`: containers that share CPUs do not run on the reserved ones either.
    pub strict: bool,
    /// `prefer-align-cpus-by-uncorecache`: CPUs of as few level 3 caches as possible.
    pub by_cache: bool,
}

impl Options {
    /// Reads the options. `alpha`, `beta`: the feature gates CPUManagerPolicyAlphaOptions and
    /// CPUManagerPolicyBetaOptions. Source: `NewStaticPolicyOptions` of Kubernetes 1.36.
    ///
    /// # Errors
    /// An option is not known, not available, not true or false, or excludes another one.
    pub fn parse(texts: &BTreeMap<String, String>, alpha: bool, beta: bool) -> Result<Self, SettingsError> {
        let mut options = Self::default();
        for (name, value) in texts {
            let gate = match name.as_str() {
                BY_SOCKET | ACROSS_CORES => Some(("Alpha", alpha)),
                ACROSS_NUMA | BY_CACHE => Some(("Beta", beta)),
                _ => None,
            };
            if let Some((level, _)) = gate.filter(|(_, on)| !on) {
                return Err(SettingsError::Gate { level, name: name.clone() });
            }
            let option = match name.as_str() {
                FULL_CORES => &mut options.full_cores,
                ACROSS_NUMA => &mut options.across_numa,
                BY_SOCKET => &mut options.by_socket,
                ACROSS_CORES => &mut options.across_cores,
                STRICT => &mut options.strict,
                BY_CACHE => &mut options.by_cache,
                _ => return Err(SettingsError::Option(name.clone())),
            };
            *option = go_bool(value)
                .ok_or_else(|| SettingsError::Bool { name: name.clone(), value: value.clone() })?;
        }
        for (left, right, both) in [
            (FULL_CORES, ACROSS_CORES, options.full_cores && options.across_cores),
            (ACROSS_NUMA, ACROSS_CORES, options.across_numa && options.across_cores),
            (BY_CACHE, ACROSS_CORES, options.by_cache && options.across_cores),
            (BY_CACHE, ACROSS_NUMA, options.by_cache && options.across_numa),
        ] {
            if both {
                return Err(SettingsError::Both(left, right));
            }
        }
        Ok(options)
    }

    /// Takes `wanted` CPUs of `free` as these options say.
    ///
    /// # Errors
    /// When fewer are free.
    pub(crate) fn take(
        &self,
        topology: &CpuTopology,
        free: &CpuSet,
        wanted: usize,
    ) -> Result<CpuSet, crate::NotEnough> {
        let sorting = if self.across_cores { Sorting::Spread } else { Sorting::Packed };
        if self.across_numa {
            let group = if self.full_cores { topology.cpus_per_core() } else { 1 };
            return distributed(topology, free, wanted, group, sorting);
        }
        packed(topology, free, wanted, sorting, self.by_cache)
    }
}

/// The settings of the CPU manager, which fit each other and the machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `cpuManagerPolicy`.
    pub policy: Policy,
    /// `cpuManagerPolicyOptions`.
    pub options: Options,
    /// CPUs that are never given to a container alone.
    pub reserved: CpuSet,
    /// Whether pods with resources of their own get CPUs as a whole (the feature gate
    /// PodLevelResourceManagers).
    pub pod_level: bool,
}

impl Settings {
    /// The settings of the policy `static`. `count`: as many CPUs as `systemReserved` and `kubeReserved` have
    /// together, rounded up. `reserved`: `reservedSystemCPUs`; if there are none, `count` CPUs are chosen as
    /// for a container. `single_numa_node`: whether that is the topology manager's policy. Source:
    /// `NewStaticPolicy`.
    ///
    /// # Errors
    /// The options do not fit the machine or the topology manager, or the reserved CPUs are not `count`.
    pub fn fixed(
        topology: &CpuTopology,
        options: Options,
        count: usize,
        reserved: &CpuSet,
        single_numa_node: bool,
    ) -> Result<Self, SettingsError> {
        if options.by_socket && single_numa_node {
            return Err(SettingsError::SingleNumaNode);
        }
        if options.by_socket && topology.sockets().len() > topology.nodes().len() {
            return Err(SettingsError::MoreSockets);
        }
        if count == 0 {
            return Err(SettingsError::NothingReserved);
        }
        let reserved = match reserved.is_empty() {
            true => options.take(topology, topology.all(), count).unwrap_or_default(),
            false => reserved.clone(),
        };
        if reserved.len() != count || !reserved.is_subset(topology.all()) {
            return Err(SettingsError::Reserved { reserved, count });
        }
        Ok(Self { policy: Policy::Static, options, reserved, pod_level: false })
    }
}
