//! Reads what the features decide from.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use nodewarden_machine::cgroup::parse::pressure;
use nodewarden_machine::cgroup::{Controller, Layout, Version, join};
use nodewarden_manifest::{Pod, Resources};

use super::SeenPod;
use super::limit_text::NO_LIMIT;
use super::limits::Limit;
use crate::ledger::machine::{Files, Machine};
use crate::policy::Policy;
use crate::protect::{DaemonGroup, Process};
use crate::throttle::{CpuFiles, PodMemory, Quota};
use crate::wanted::Place;

/// A directory of a cgroup, and the version of its interface.
pub fn directory(layout: &Layout, controller: Controller, cgroup: &str) -> Option<(PathBuf, Version)> {
    let hierarchy = layout.hierarchy(controller)?;
    Some((join(&hierarchy.mount, cgroup), hierarchy.version))
}

/// The whole text of a file without white space at its end; `None` if it cannot be read.
fn text(directory: &Path, file: &str) -> Option<String> {
    fs::read_to_string(directory.join(file)).ok().map(|text| text.trim_end().to_owned())
}

fn number(directory: &Path, file: &str) -> Option<u64> {
    text(directory, file)?.parse().ok()
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
        stalled: text(&directory, "memory.pressure").as_deref().and_then(stalled),
        directory,
        policy,
    })
}

/// `avg10` of the line `full`.
fn stalled(text: &str) -> Option<f64> {
    Some(pressure(text.as_bytes())?.full?.avg10)
}

fn amount(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Quota and period of a cgroup in microseconds; `None` without a quota.
fn quota(directory: &Path, version: Version) -> Option<(u64, u64)> {
    match version {
        Version::V1 => {
            Some((number(directory, "cpu.cfs_quota_us")?, number(directory, "cpu.cfs_period_us")?))
        }
        Version::V2 => {
            let text = text(directory, "cpu.max")?;
            let (quota, period) = text.split_once(' ')?;
            Some((quota.parse().ok()?, period.parse().ok()?))
        }
    }
}

/// The smallest quota that a kubelet sets, in microseconds (`minQuotaPeriod`).
const LEAST_QUOTA: u64 = 1000;

/// The quota that a kubelet sets for this limit (`MilliCPUToQuota`); `None` without one.
fn quota_of(resources: &Resources, period: u64) -> Option<u64> {
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
    let (now, period) = quota(&directory, version)?;
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
    all.find(|container| container.name == name).map(|container| &container.resources)
}

/// A cgroup is not looked at before it is so old: it gets its limits one after the other.
const SETTLED: std::time::Duration = std::time::Duration::from_secs(10);

/// The limits of the pods and their containers.
pub fn limits(layout: &Layout, pods: &[SeenPod]) -> Vec<Limit> {
    let mut all = Vec::new();
    for seen in pods {
        let pod = &seen.pod;
        let spec = digest(pod);
        let mut add = |cgroup: &str, container: &str, by_spec: Option<&Resources>| {
            let limit = |file, identity, value, by_spec| Limit {
                cgroup: cgroup.to_owned(),
                pod: pod.uid.clone(),
                container: container.to_owned(),
                file,
                identity,
                value,
                by_spec,
                spec,
                is_new: seen.age < SETTLED,
            };
            if let Some((file, identity, value)) = memory_limit(layout, cgroup) {
                let bytes = by_spec.map(|own| own.limits.get("memory").map(|own| amount(own.value())));
                all.push(limit(file, identity, value, bytes));
            }
            if let Some((file, identity, value, period)) = cpu_limit(layout, cgroup) {
                all.push(limit(file, identity, value, by_spec.map(|own| quota_of(own, period))));
            }
        };
        add(&seen.cgroup, "", Some(&pod_resources(pod)));
        for container in &seen.containers {
            add(&container.cgroup, &container.name, container_resources(pod, &container.name));
        }
    }
    all
}

fn memory_limit(layout: &Layout, cgroup: &str) -> Option<(&'static str, u64, Option<u64>)> {
    let (directory, version) = directory(layout, Controller::Memory, cgroup)?;
    let file = match version {
        Version::V1 => "memory.limit_in_bytes",
        Version::V2 => "memory.max",
    };
    let (text, identity) = Files.read(&Place::new(&directory, file)).ok()??;
    Some((file, identity, text.parse().ok().filter(|bytes| *bytes < NO_LIMIT)))
}

fn cpu_limit(layout: &Layout, cgroup: &str) -> Option<(&'static str, u64, Option<u64>, u64)> {
    let (directory, version) = directory(layout, Controller::Cpu, cgroup)?;
    let file = match version {
        Version::V1 => "cpu.cfs_quota_us",
        Version::V2 => "cpu.max",
    };
    let (_, identity) = Files.read(&Place::new(&directory, file)).ok()??;
    let quota = quota(&directory, version);
    Some((file, identity, quota.map(|(quota, _)| quota), quota.map_or(100_000, |(_, period)| period)))
}

/// Differs when the spec's resources do.
fn digest(pod: &Pod) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{:?}", pod.resources).hash(&mut hasher);
    for container in pod.containers.iter().chain(&pod.init_containers) {
        (&container.name, format!("{:?}", container.resources)).hash(&mut hasher);
    }
    hasher.finish()
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
                if let Some(process) = process(proc, pid) {
                    processes.insert(pid, process);
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
    let score = text(&directory, "oom_score_adj")?.parse().ok()?;
    Some(Process { pid, command: text(&directory, "comm")?, score })
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
        assert_eq!(quota(dir.path(), Version::V2), None);
        write("cpu.max", "50000 100000\n");
        assert_eq!(quota(dir.path(), Version::V2), Some((50_000, 100_000)));
        write("cpu.cfs_quota_us", "-1\n");
        write("cpu.cfs_period_us", "100000\n");
        assert_eq!(quota(dir.path(), Version::V1), None);
        let with = |cpu: &str| Resources {
            limits: [("cpu".to_owned(), cpu.parse().unwrap())].into(),
            ..Resources::default()
        };
        assert_eq!(quota_of(&with("500m"), 100_000), Some(50_000));
        assert_eq!(quota_of(&with("1m"), 100_000), Some(1000));
        assert_eq!(quota_of(&Resources::default(), 100_000), None);
    }

    #[test]
    fn free_memory_and_what_is_reclaimed_first_are_available() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("meminfo"), "MemTotal: 100 kB\nMemFree:  20 kB\nInactive(file):  3 kB\n")
            .unwrap();
        assert_eq!(available(dir.path()), Some(23 << 10));
    }
}
