//! Reads what the features decide from.

use std::collections::{BTreeMap, btree_map};
use std::fs;
use std::path::{Path, PathBuf};

use nodewarden_machine::cgroup::parse::pressure;
use nodewarden_machine::cgroup::{Controller, Layout, Version, join};
use nodewarden_manifest::{Pod, Resources};
use rustix::fs::{Mode, OFlags};

use super::SeenPod;
use crate::policy::Policy;
use crate::protect::{DaemonGroup, Process};
use crate::throttle::{CpuFiles, PodMemory, Quota};

/// A directory of a cgroup, and the version of its interface.
pub fn directory(layout: &Layout, controller: Controller, cgroup: &str) -> Option<(PathBuf, Version)> {
    let hierarchy = layout.hierarchy(controller)?;
    Some((join(&hierarchy.mount, cgroup), hierarchy.version))
}

/// The whole text of a file without white space at its end; `None` if it cannot be read.
fn text(directory: &Path, file: &str) -> Option<String> {
    fs::read_to_string(directory.join(file)).ok().map(|text| text.trim_end().to_owned())
}

/// The longest text that [`value`] returns, in bytes.
const LONGEST: usize = 511;

/// The text of a file with one value, as [`text`], with half of the system calls: the kernel gives such a
/// file in one read. `None` also if it is longer than [`LONGEST`].
pub fn value(directory: &Path, file: &str) -> Option<String> {
    let mut bytes = [0; LONGEST + 1];
    let file =
        rustix::fs::open(directory.join(file), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let length = rustix::io::read(&file, &mut bytes).ok().filter(|length| *length <= LONGEST)?;
    Some(std::str::from_utf8(&bytes[..length]).ok()?.trim_end().to_owned())
}

fn number(directory: &Path, file: &str) -> Option<u64> {
    value(directory, file)?.parse().ok()
}

/// `memory.available` in bytes as the kubelet computes it on v2: free memory and inactive file pages.
pub fn available(proc: &Path) -> Option<u64> {
    let text = text(proc, "meminfo")?;
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(of("MemFree")?.saturating_add(of("Inactive(file)").unwrap_or(0)))
}

/// What a pod uses of memory; `None` without the unified hierarchy, or for a pod that is going.
pub fn memory(layout: &Layout, seen: &SeenPod, policy: Policy) -> Option<PodMemory> {
    let (directory, version) = directory(layout, Controller::Memory, &seen.cgroup)?;
    if version == Version::V1 {
        return None;
    }
    Some(PodMemory {
        uid: seen.pod.uid.clone(),
        used: number(&directory, "memory.current")?,
        requested: amount(seen.pod.requests().get("memory").map_or(0, nodewarden_manifest::Quantity::value)),
        // `max` is no number.
        limit: number(&directory, "memory.max"),
        stalled: value(&directory, "memory.pressure").as_deref().and_then(stalled),
        directory,
        policy,
    })
}

/// `avg10` of the line `full`.
fn stalled(text: &str) -> Option<f64> {
    Some(pressure(text.as_bytes())?.full?.avg10)
}

/// 0 for a negative amount.
pub fn amount(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// The file with the quota of a cgroup.
pub fn quota_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "cpu.cfs_quota_us",
        Version::V2 => "cpu.max",
    }
}

/// Quota and period of a cgroup in microseconds, by the text of its [`quota_file`]; `None` without a quota.
pub fn quota(directory: &Path, version: Version, text: &str) -> Option<(u64, u64)> {
    match version {
        Version::V1 => Some((text.parse().ok()?, number(directory, "cpu.cfs_period_us")?)),
        Version::V2 => {
            let (quota, period) = text.split_once(' ')?;
            Some((quota.parse().ok()?, period.parse().ok()?))
        }
    }
}

/// The smallest quota that a kubelet sets, in microseconds (`minQuotaPeriod`).
const LEAST_QUOTA: u64 = 1000;

/// The quota that a kubelet sets for this limit (`MilliCPUToQuota`); `None` without one.
pub fn quota_of(resources: &Resources, period: u64) -> Option<u64> {
    let milli = amount(resources.limits.get("cpu")?.milli_value());
    (milli > 0).then(|| (milli.saturating_mul(period) / 1000).max(LEAST_QUOTA))
}

/// A cgroup that may have a quota.
pub struct WithQuota {
    /// Its directory.
    pub directory: PathBuf,
    /// Names of its files.
    pub files: CpuFiles,
    /// The quota.
    pub quota: Quota,
}

/// The quota of a pod's cgroup, or of the container's whose resources these are.
pub fn with_quota(layout: &Layout, cgroup: &str, resources: &Resources) -> Option<WithQuota> {
    let (directory, version) = directory(layout, Controller::Cpu, cgroup)?;
    let (now, period) = quota(&directory, version, &value(&directory, quota_file(version))?)?;
    let by_spec = quota_of(resources, period);
    Some(WithQuota { directory, files: CpuFiles::of(version), quota: Quota { now, by_spec } })
}

/// Requests and limits of the whole pod; limits only where every container has that limit.
pub fn pod_resources(pod: &Pod) -> Resources {
    let mut limits = pod.limits();
    let all = || pod.containers.iter().chain(&pod.init_containers);
    let of_pod = |name: &str| pod.resources.as_ref().is_some_and(|own| own.limits.contains_key(name));
    limits.retain(|name, _| {
        of_pod(name) || all().all(|container| container.resources.limits.contains_key(name))
    });
    Resources { requests: pod.requests(), limits }
}

/// What the spec says of a container's resources; `None` for one that it does not have. The runtime may not
/// have said the name of the only one.
pub fn container_resources<'a>(pod: &'a Pod, name: &str) -> Option<&'a Resources> {
    if let ([only], [], "") = (&*pod.containers, &*pod.init_containers, name) {
        return Some(&only.resources);
    }
    let mut all = pod.containers.iter().chain(&pod.init_containers);
    all.find(|container| container.name == name).map(|container| &*container.resources)
}

/// Where systemd has its services.
const SERVICES: &str = "/system.slice";

/// The cgroups of these daemons with those above them, and the processes in them. What is not there is left
/// out.
pub fn daemons(layout: &Layout, proc: &Path, units: &[String]) -> (Vec<DaemonGroup>, Vec<Process>) {
    let paths = units.iter().map(|unit| match unit.starts_with('/') {
        true => unit.clone(),
        false => format!("{SERVICES}/{unit}"),
    });
    let (mut groups, mut processes) = (BTreeMap::<PathBuf, u64>::new(), BTreeMap::new());
    for path in paths {
        for hierarchy in layout.all().chain(layout.unified()) {
            let procs = text(&join(&hierarchy.mount, &path), "cgroup.procs").unwrap_or_default();
            for pid in procs.lines().filter_map(|line| line.parse().ok()) {
                if let btree_map::Entry::Vacant(place) = processes.entry(pid)
                    && let Some(process) = process(proc, pid)
                {
                    place.insert(process);
                }
            }
        }
        let Some((own, Version::V2)) = directory(layout, Controller::Memory, &path) else { continue };
        if !own.join("memory.min").exists() {
            continue;
        }
        let above = path.match_indices('/').map(|(at, _)| &path[..at]).filter(|path| !path.is_empty());
        let above = above.filter_map(|path| Some(directory(layout, Controller::Memory, path)?.0));
        for directory in above.chain([own]) {
            *groups.entry(directory).or_default() += 1;
        }
    }
    let groups = groups.into_iter().map(|(directory, daemons)| DaemonGroup { directory, daemons });
    (groups.collect(), processes.into_values().collect())
}

/// A process; `None` if it has ended.
fn process(proc: &Path, pid: u32) -> Option<Process> {
    let directory = proc.join(pid.to_string());
    let score = value(&directory, "oom_score_adj")?.parse().ok()?;
    Some(Process { pid, command: value(&directory, "comm")?, score })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_time_in_which_all_tasks_wait() {
        let text =
            "some avg10=12.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=3.50 avg60=0.00 avg300=0.00 total=1";
        assert_eq!(stalled(text), Some(3.5));
        assert_eq!(stalled("some avg10=1.00"), None);
    }

    #[test]
    fn quotas_are_read_in_both_versions_and_computed_as_a_kubelet_does() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(dir.path().join(file), text).unwrap();
        write("cpu.max", "max 100000\n");
        let read = |version| quota(dir.path(), version, &value(dir.path(), quota_file(version)).unwrap());
        assert_eq!(read(Version::V2), None);
        write("cpu.max", "50000 100000\n");
        assert_eq!(read(Version::V2), Some((50_000, 100_000)));
        write("cpu.cfs_quota_us", "-1\n");
        write("cpu.cfs_period_us", "200000\n");
        assert_eq!(read(Version::V1), None);
        write("cpu.cfs_quota_us", "50000\n");
        assert_eq!(read(Version::V1), Some((50_000, 200_000)));
        let with = |cpu: &str| Resources {
            limits: [("cpu".to_owned(), cpu.parse().unwrap())].into(),
            ..Resources::default()
        };
        assert_eq!(quota_of(&with("500m"), 100_000), Some(50_000));
        assert_eq!(quota_of(&with("1m"), 100_000), Some(1000));
        assert_eq!(quota_of(&Resources::default(), 100_000), None);
    }

    #[test]
    fn a_value_is_read_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &str| {
            fs::write(dir.path().join("value"), text).unwrap();
            value(dir.path(), "value")
        };
        assert_eq!(of("max 100000\n").as_deref(), Some("max 100000"));
        assert_eq!(of(&"1".repeat(LONGEST)), Some("1".repeat(LONGEST)));
        assert_eq!(of(&"1".repeat(LONGEST + 1)), None);
        assert_eq!(value(dir.path(), "none"), None);
    }

    #[test]
    fn free_memory_and_what_is_reclaimed_first_are_available() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("meminfo"), "MemTotal: 100 kB\nMemFree:  20 kB\nInactive(file):  3 kB\n")
            .unwrap();
        assert_eq!(available(dir.path()), Some(23 << 10));
    }
}
