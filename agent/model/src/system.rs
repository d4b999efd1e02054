//! Where the node's own processes are.

/// The cgroups of `/stats/summary`'s `systemContainers` besides that of the pods, as paths of
/// [`crate::GroupView`]; `None` for what is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemCgroups {
    /// The kubelet's, or in mode manage the agent's own.
    pub kubelet: Option<String>,
    /// The container runtime's.
    pub runtime: Option<String>,
    /// Of the processes that are in no cgroup of their own: `systemCgroups`.
    pub misc: Option<String>,
}
