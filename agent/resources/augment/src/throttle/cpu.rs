//! CPU time: BestEffort pods get what no other task wants, and quota that was not used may be used later.

use std::path::Path;

use nodewarden_machine::cgroup::Version;
use nodewarden_manifest::QosClass;

use crate::policy::Policy;
use crate::wanted::{Feature, Level, Place, Wanted};

/// Names of the CPU controller's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuFiles {
    /// The weight, and what the kernel leaves there when the cgroup is no longer idle
    /// (`sched_group_set_idle`).
    pub weight: (&'static str, &'static str),
    /// The burst.
    pub burst: &'static str,
}

impl CpuFiles {
    /// Those of this version of cgroups.
    pub fn of(version: Version) -> Self {
        match version {
            Version::V1 => Self { weight: ("cpu.shares", "1024"), burst: "cpu.cfs_burst_us" },
            Version::V2 => Self { weight: ("cpu.weight", "100"), burst: "cpu.max.burst" },
        }
    }
}

/// `cpu.idle` of a pod; `None` where it should not be set. Only of BestEffort pods, whose cgroups the kubelet
/// gives the smallest weight once and never another: an idle cgroup refuses weights.
pub fn idle(uid: &str, qos: QosClass, policy: &Policy, directory: &Path, files: CpuFiles) -> Option<Wanted> {
    if qos != QosClass::BestEffort || policy.opted_out || policy.latency_sensitive {
        return None;
    }
    Some(Wanted {
        feature: Feature::CpuIdle,
        level: Level::Pod,
        place: Place::new(directory, "cpu.idle"),
        value: "1".into(),
        instead_of: &["0"],
        companion: Some(files.weight),
        pod: uid.to_owned(),
    })
}

/// The quota of a cgroup in microseconds of each period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// What the cgroup has.
    pub now: u64,
    /// What the pod's spec says it should have; `None` where the spec says nothing of this cgroup.
    pub by_spec: Option<u64>,
}

/// The burst of a cgroup with this quota; `None` where there should be none. The kernel refuses quotas below
/// the burst, so it is taken back as soon as the spec says that the quota will be lowered.
pub fn burst(
    uid: &str,
    level: Level,
    quota: Quota,
    policy: &Policy,
    percent: u64,
    directory: &Path,
    files: CpuFiles,
) -> Option<Wanted> {
    let percent = policy.cpu_burst.unwrap_or(percent);
    let is_lowered = quota.by_spec.is_some_and(|by_spec| by_spec < quota.now);
    if policy.opted_out || percent == 0 || is_lowered {
        return None;
    }
    let value = quota.now.saturating_mul(percent.min(100)) / 100;
    Some(Wanted {
        feature: Feature::CpuBurst,
        level,
        place: Place::new(directory, files.burst),
        value: value.to_string(),
        instead_of: &["0"],
        companion: None,
        pod: uid.to_owned(),
    })
    .filter(|_| value > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::permit;

    #[test]
    fn only_best_effort_pods_that_do_not_object_are_idle() {
        let node = Policy::default();
        let of =
            |qos, policy: Policy| idle("u", qos, &policy, Path::new("/c/pod"), CpuFiles::of(Version::V2));
        let found = of(QosClass::BestEffort, node).unwrap();
        assert_eq!((found.place.path().to_str(), &*found.value), (Some("/c/pod/cpu.idle"), "1"));
        assert_eq!(found.companion, Some(("cpu.weight", "100")));
        assert_eq!(permit(found.level, &found.place.file), Ok(()));
        for (qos, policy) in [
            (QosClass::Burstable, node),
            (QosClass::Guaranteed, node),
            (QosClass::BestEffort, Policy { opted_out: true, ..node }),
            (QosClass::BestEffort, Policy { latency_sensitive: true, ..node }),
        ] {
            assert_eq!(of(qos, policy), None, "{qos:?} {policy:?}");
        }
    }

    #[test]
    fn a_burst_is_a_part_of_the_quota_until_the_quota_is_to_be_lowered() {
        let node = Policy::default();
        let of = |now, by_spec, policy: Policy| {
            let quota = Quota { now, by_spec };
            let wanted =
                burst("u", Level::Pod, quota, &policy, 50, Path::new("/c"), CpuFiles::of(Version::V1));
            wanted.map(|wanted| (wanted.place.file, wanted.value))
        };
        let some = |value: &str| Some(("cpu.cfs_burst_us".to_owned(), value.to_owned()));
        assert_eq!(of(100_000, Some(100_000), node), some("50000"));
        assert_eq!(of(100_000, None, node), some("50000"));
        assert_eq!(of(100_000, Some(200_000), node), some("50000"), "it is raised");
        assert_eq!(of(100_000, Some(99_999), node), None, "it is lowered");
        assert_eq!(of(1, None, node), None);
        assert_eq!(of(100_000, None, Policy { cpu_burst: Some(20), ..node }), some("20000"));
        assert_eq!(of(100_000, None, Policy { cpu_burst: Some(0), ..node }), None);
        assert_eq!(of(100_000, None, Policy { opted_out: true, ..node }), None);
    }
}
