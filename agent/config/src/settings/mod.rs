//! From the kubelet's keys to [`NodeSettings`], [`PodSettings`], [`GcSettings`] and [`EvictionSettings`], with the
//! kubelet's defaults (pkg/kubelet/apis/config/v1beta1/defaults.go) and its checks (pkg/kubelet/apis/config/validation/validation.go).

mod allocatable;
pub mod devices;
pub mod eviction;
pub mod feedback;
mod gates;
pub mod gc;
mod limits;
pub mod path;
pub mod pods;
#[cfg(test)]
mod pods_tests;
pub mod probes;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use super::eviction::EvictionSettings;
use super::fields::Fields;
use super::node::{Enforce, NodeSettings};
use super::pods::PodSettings;
use nodewarden_machine::cgroup::control::DriverKind;
use nodewarden_model::GcSettings;

pub use gates::FeatureGates;

/// What the kubelet's keys say.
#[derive(Debug)]
pub struct Taken {
    pub node: NodeSettings,
    pub pods: PodSettings,
    pub gc: GcSettings,
    pub eviction: EvictionSettings,
    pub gates: FeatureGates,
}

/// Takes every key that is acted on here. What the kubelet would act on and nobody does here is added to `ignored`.
pub fn take(top: &mut Fields<'_>, ignored: &mut Vec<String>) -> Taken {
    let mut settings = NodeSettings::default();
    let gates = FeatureGates::take(top, ignored);
    places(top, &mut settings);
    allocatable::take(top, &mut settings);
    let (hard, eviction) = eviction::take(top, settings.enforce.contains(&Enforce::Pods));
    settings.eviction_hard = hard;
    limits::take(top, gates, &mut settings, ignored);
    let up = |first| first..=i64::from(i32::MAX);
    settings.oom_score_adj = top
        .integer("oomScoreAdj", "a whole number from -1000 to 1000", &(-1000..=1000))
        .map_or(settings.oom_score_adj, |n| n as i32);
    settings.max_pods = top
        .integer("maxPods", "a whole number from 0 up", &up(0))
        .filter(|n| *n > 0)
        .map_or(settings.max_pods, |n| n as u32);
    settings.static_pod_path = top
        .text("staticPodPath", "an absolute path", |t| match t {
            "" => Some(None),
            t => (t.starts_with('/') && !t.contains('\0')).then(|| Some(PathBuf::from(t))),
        })
        .flatten();
    settings.file_check_frequency = top
        .duration("fileCheckFrequency")
        .filter(|time| !time.is_zero())
        .unwrap_or(settings.file_check_frequency);
    let pods = pods::take(top, gates);
    let gc = gc::take(top, gates);
    Taken { node: settings, pods, gc, eviction, gates }
}

/// Where cgroups are made, and by whom.
fn places(top: &mut Fields<'_>, settings: &mut NodeSettings) {
    let root = path::take(top, "cgroupRoot");
    settings.cgroups_per_qos = top.flag("cgroupsPerQOS", settings.cgroups_per_qos);
    settings.cgroup_driver = top
        .text("cgroupDriver", "cgroupfs or systemd", |t| match t {
            "" | "cgroupfs" => Some(DriverKind::Cgroupfs),
            "systemd" => Some(DriverKind::Systemd),
            _ => None,
        })
        .unwrap_or(settings.cgroup_driver);
    settings.kubelet_cgroups = path::take(top, "kubeletCgroups");
    settings.system_cgroups = path::take_below_root(top, "systemCgroups");
    if settings.system_cgroups.is_some() && root.is_none() && !top.has_problem("cgroupRoot") {
        top.refuse("cgroupRoot", "", "the cgroup that pods live under, because systemCgroups is set");
    }
    settings.cgroup_root = root.unwrap_or_else(|| "/".to_owned());
}
