//! Why memory cannot be given, and why settings are not valid. The texts are the kubelet's where it has one.

use nodewarden_model::PodReason;
use nodewarden_topology::AllocateError;

/// Why a container or pod does not get memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// No set of NUMA nodes has enough.
    #[error(
        "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
    )]
    NoNodes,
    /// The best set of NUMA nodes has more nodes than the machine would need if it were empty.
    #[error("[memorymanager] failed to find the default preferred hint")]
    NotPreferred,
    /// The nodes that were merged have not enough, and no larger set that has.
    #[error("[memorymanager] failed to find NUMA nodes to extend the current topology hint")]
    NotExtended,
    /// The nodes that were merged have not enough, and more of them would not be preferred.
    #[error("[memorymanager] failed to find the extended preferred hint")]
    ExtendedNotPreferred,
    /// A node of the merged ones is used alone or with others: a node is only used by one group of nodes at a
    /// time.
    #[error("[memorymanager] preferred hint violates NUMA node allocation")]
    Groups,
    /// The machine has no memory of this type, like huge pages of another size. (The kubelet ends with a
    /// panic.)
    #[error("[memorymanager] the machine has no {0}")]
    NoSuchType(String),
    /// A container of a pod with resources of its own would have no memory of the pod.
    #[error("pod rejected, {0}")]
    EmptyPodPool(String),
}

impl From<MemoryError> for AllocateError {
    fn from(error: MemoryError) -> Self {
        let reason =
            matches!(error, MemoryError::EmptyPodPool(_)).then_some(PodReason::EmptyPodSharedPoolError);
        Self { reason, message: error.to_string() }
    }
}

/// Settings that the memory manager cannot work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// `memoryManagerPolicy` is not known.
    #[error("unknown policy: {0:?}")]
    Policy(String),
    /// The policy `BestEffort` is only there on Windows.
    #[error("policy \"BestEffort\" is not available for platform \"linux\"")]
    WindowsOnly,
    /// The policy `Static` without reserved memory.
    #[error("[memorymanager] you should specify the system reserved memory")]
    NothingReserved,
    /// `reservedMemory` names a NUMA node that is not there.
    #[error(
        "the reserved memory configuration references a NUMA node {0} that does not exist on this machine"
    )]
    NoSuchNode(u32),
    /// `reservedMemory` is together not what is reserved in `systemReserved`, `kubeReserved` and
    /// `evictionHard`.
    #[error(
        "the total amount \"{total}\" of type \"{resource}\" is not equal to the value \"{expected}\" determined by Node Allocatable feature"
    )]
    Total {
        /// The type of memory.
        resource: String,
        /// The sum of `reservedMemory`.
        total: String,
        /// What it should be.
        expected: String,
    },
    /// More is reserved on a NUMA node than it has. (In the kubelet the node then has an enormous amount of
    /// memory.)
    #[error("NUMA node {node}: {reserved} bytes of {resource} are reserved, and it has {total}")]
    MoreThanThere {
        /// The node.
        node: u32,
        /// The type of memory.
        resource: String,
        /// Reserved bytes.
        reserved: u64,
        /// The bytes that it has; of memory without its huge pages.
        total: u64,
    },
}
