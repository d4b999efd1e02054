//! The parts that depend on the mode.

use nodewarden_exclusive_cpus::ExclusiveCpuWatch;
use nodewarden_gc::Collector;
use nodewarden_hierarchy::HierarchyManager;
use nodewarden_lifecycle::Lifecycle;
use nodewarden_pods::log_rotation::LogRotation;
use nodewarden_pods::probes::Probes;
use nodewarden_pods::source::Following;
use nodewarden_resource_managers::ResourceManagers;
use nodewarden_throttle::Throttle;

use super::augment::AugmentParts;
use super::devices::NodeDevices;
use super::eviction::Eviction;
use super::kubernetes::NodeHandle;
use super::pod_reports::PodReports;
use super::shutdown::Shutdown;

/// What runs for the node and its pods. Each is `None` where the mode or the configuration does without it.
/// The fields stand in the order in which they end, the reverse of the order in which they are started.
#[derive(Default)]
#[expect(dead_code, reason = "some parts are only held until they end")]
pub struct NodeParts {
    /// Everything that was written beside a kubelet is put back when this ends.
    pub augment: Option<AugmentParts>,
    pub reports: Option<PodReports>,
    /// An announced shutdown is no longer delayed when this ends.
    pub shutdown: Option<Shutdown>,
    /// The node object and its lease stay when this ends.
    pub kubernetes: Option<NodeHandle>,
    /// Ended while the hierarchy still runs, which then writes the limits without throttling.
    pub throttle: Option<Throttle>,
    /// Ended before everything that pods are handed to.
    pub sources: Option<Following>,
    pub log_rotation: Option<LogRotation>,
    /// Nothing is counted on exclusive CPUs when this ends.
    pub exclusive_cpus: Option<ExclusiveCpuWatch>,
    pub eviction: Option<Eviction>,
    pub gc: Option<Collector>,
    /// Containers keep running when this ends.
    pub pods: Option<Lifecycle>,
    pub probes: Option<Probes>,
    /// Cgroups stay when this ends: pods outlive the agent.
    pub hierarchy: Option<HierarchyManager>,
    pub devices: Option<NodeDevices>,
    pub managers: Option<ResourceManagers>,
}
