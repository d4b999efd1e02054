//! Why CPUs cannot be given, and why settings are not valid. The texts are the kubelet's where it has one.

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_model::PodReason;
use nodewarden_topology::AllocateError;

use crate::NotEnough;

/// Why a container or pod does not get CPUs of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuError {
    /// There are fewer free CPUs than it asks for.
    #[error(transparent)]
    NotEnough(#[from] NotEnough),
    /// `full-pcpus-only`: it asks for a part of a core.
    #[error("SMT Alignment Error: requested {requested} cpus not multiple cpus per core = {per_core}")]
    PartOfCore {
        /// CPUs that it asks for.
        requested: usize,
        /// CPUs of a core.
        per_core: usize,
    },
    /// `full-pcpus-only`: there are not as many whole cores.
    #[error(
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {available}, requested CPUs = {requested}, CPUs per core = {per_core}"
    )]
    TooFewCores {
        /// CPUs of whole cores that are free.
        available: usize,
        /// CPUs that it asks for.
        requested: usize,
        /// CPUs of a core.
        per_core: usize,
    },
    /// A container of a pod with resources of its own would have no CPU of the pod.
    #[error("pod rejected, {0}")]
    EmptyPodPool(String),
    /// Containers without CPUs of their own would have none. (The kubelet allows this with
    /// `strict-cpu-reservation`, lets them run on CPUs of others, and then does not start again.)
    #[error("the {requested} CPUs are the last ones: none would be left for containers that share CPUs")]
    EmptySharedPool {
        /// CPUs that it asks for.
        requested: usize,
    },
}

impl From<CpuError> for AllocateError {
    fn from(error: CpuError) -> Self {
        let reason = match &error {
            CpuError::NotEnough(_) | CpuError::EmptySharedPool { .. } => None,
            CpuError::PartOfCore { .. } | CpuError::TooFewCores { .. } => Some(PodReason::SmtAlignmentError),
            CpuError::EmptyPodPool(_) => Some(PodReason::EmptyPodSharedPoolError),
        };
        Self { reason, message: error.to_string() }
    }
}

/// Settings that the CPU manager cannot work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// `cpuManagerPolicy` is neither `none` nor `static`.
    #[error("unknown policy: {0:?}")]
    Policy(String),
    /// A key of `cpuManagerPolicyOptions` is not known.
    #[error("unknown CPU Manager Policy option: {0:?}")]
    Option(String),
    /// The option needs a feature gate that is off.
    #[error("CPU Manager Policy {level}-level Options not enabled, but option {name:?} provided")]
    Gate {
        /// `Alpha` or `Beta`.
        level: &'static str,
        /// The option.
        name: String,
    },
    /// The value of an option is neither true nor false.
    #[error("bad value for option {name:?}: strconv.ParseBool: parsing {value:?}: invalid syntax")]
    Bool {
        /// The option.
        name: String,
        /// Its value.
        value: String,
    },
    /// Two options exclude each other.
    #[error("static policy options {0} and {1} can not be used at the same time")]
    Both(&'static str, &'static str),
    /// `align-by-socket` with the topology manager's policy `single-numa-node`.
    #[error(
        "Topology manager single-numa-node policy is incompatible with CPUManager align-by-socket policy option"
    )]
    SingleNumaNode,
    /// `align-by-socket` where NUMA nodes have several sockets.
    #[error(
        "Align by socket is not compatible with hardware where number of sockets are more than number of NUMA"
    )]
    MoreSockets,
    /// The policy `static` without reserved CPUs.
    #[error(
        "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero"
    )]
    NothingReserved,
    /// The reserved CPUs are not as many as are reserved in `systemReserved` and `kubeReserved`, or not
    /// online.
    #[error(
        "[cpumanager] unable to reserve the required amount of CPUs (size of {reserved} did not equal {count})"
    )]
    Reserved {
        /// The CPUs that can be reserved.
        reserved: CpuSet,
        /// How many are to be reserved.
        count: usize,
    },
}
