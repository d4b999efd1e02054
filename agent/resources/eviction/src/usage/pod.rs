//! Disk use of pods: which directories belong to each, and where a figure of the runtime takes their place.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::layers::{LayerStats, Layers};
use super::measurer::{Directory, Measurer, Part};
use super::overlays::Overlays;
use crate::gather::{Subject, container_group, groups_below};
use crate::{Candidate, ContainerUse, DiskUse, PodDisk};
use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::project_quota::ProjectUse;
use nodewarden_manifest::Pod;
use nodewarden_manifest::volume_source::Medium;
use nodewarden_pods::paths::empty_dir;
use nodewarden_pods::volume::volume_project;

/// A figure of the runtime that is younger needs no walk.
const NEW: Duration = Duration::from_secs(2);
/// A figure of the runtime that is younger is used as long as a walk has not finished (containerd collects
/// every 10 s).
const RECENT: Duration = Duration::from_secs(30);

/// What a pod uses on disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodUse {
    pub disk: PodDisk,
    /// By container name.
    pub containers: BTreeMap<String, ContainerUse>,
    /// `emptyDir` volumes on disk by name.
    pub volumes: BTreeMap<String, DiskUse>,
}

/// A candidate with its disk use.
pub fn with_disk(mut candidate: Candidate, found: PodUse) -> Candidate {
    candidate.disk = Some(found.disk);
    for (name, used) in found.containers {
        let memory = candidate.containers.get(&name).and_then(|before| before.memory);
        candidate.containers.insert(name, ContainerUse { memory, ..used });
    }
    candidate
}

/// What of a pod is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Its figures are what is known of it.
    Nothing,
    /// Its `emptyDir` volumes.
    Volumes,
    /// Everything but writable layers, of which only the runtime's figures are taken.
    AllButLayers,
    Everything,
}

impl Scope {
    fn has(self, part: &Part) -> bool {
        match self {
            Self::Nothing => false,
            Self::Volumes => matches!(part, Part::Volume(_)),
            Self::AllButLayers => !matches!(part, Part::Layer(_)),
            Self::Everything => true,
        }
    }
}

/// What is read for all pods at once.
pub struct Sources<'a> {
    pub layout: &'a Layout,
    /// `None`: the runtime did not answer.
    pub runtime: Option<&'a Layers>,
}

impl Measurer {
    /// Counts of each of `subjects` what `scope` returns, all together for at most `time`. The rest of the
    /// figures is what is known of it. In the order of `subjects`.
    pub fn pods(
        &self,
        sources: &Sources<'_>,
        subjects: &[Subject],
        scope: impl Fn(&Subject) -> Scope,
        time: Duration,
    ) -> Vec<PodUse> {
        let overlays = Overlays::read();
        let mut plans: Vec<_> =
            subjects.iter().map(|subject| Plan::of(sources, &overlays, subject)).collect();
        forget_shared_projects(&mut plans);
        let (mut counted, mut others) = (Vec::new(), Vec::new());
        for (plan, subject) in plans.iter().zip(subjects) {
            let scope = scope(subject);
            for directory in &plan.directories {
                let list = if scope.has(&directory.part) { &mut counted } else { &mut others };
                list.push(directory.clone());
            }
        }
        let used = self.measure(&counted, time).into_iter().chain(self.known(&others));
        let found = counted.iter().chain(&others).zip(used);
        let found: BTreeMap<_, _> = found.map(|(own, used)| ((own.uid.as_str(), &own.part), used)).collect();
        let of = |plan: &Plan<'_>| {
            let directory = |part: &Part| found.get(&(plan.uid, part)).copied().unwrap_or(DiskUse::UNKNOWN);
            let (now, answers) = (Instant::now(), sources.runtime.is_some());
            plan.sum(directory, |id, known| self.is_given_up(plan.uid, id, known, answers, now))
        };
        plans.iter().map(of).collect()
    }
}

/// The directories of one pod.
struct Plan<'a> {
    uid: &'a str,
    directories: Vec<Directory>,
    /// Name, and its project with what belongs to that.
    volumes: Vec<(&'a str, Option<(u32, ProjectUse)>)>,
    /// Name, id, the runtime's figure, and whether the layer has a directory.
    containers: Vec<(&'a str, &'a str, Option<LayerStats>, bool)>,
}

impl<'a> Plan<'a> {
    fn of(sources: &Sources<'_>, overlays: &Overlays, subject: &'a Subject) -> Self {
        let uid = subject.pod.uid.as_str();
        let volume = |name: &str| empty_dir(&subject.pod_dir, name);
        let volumes = disk_volumes(&subject.pod).map(|name| (name, volume_project(&volume(name)))).collect();
        let logs = |name: &str| subject.logs.join(name);
        let directory = |part, path, skip| Directory { uid: uid.to_owned(), part, path, skip };
        let mut plan = Self { uid, directories: Vec::new(), volumes, containers: Vec::new() };
        let own: Vec<PathBuf> = plan.volumes.iter().map(|(name, _)| volume(name)).collect();
        let of_containers = subject.containers.iter().map(|(name, _)| logs(name)).collect();
        plan.directories.push(directory(Part::OtherLogs, subject.logs.clone(), of_containers));
        plan.directories.push(directory(Part::PodDir, subject.pod_dir.clone(), own));
        for (name, _) in &plan.volumes {
            plan.directories.push(directory(Part::Volume((*name).to_owned()), volume(name), Vec::new()));
        }
        let groups = groups_below(sources.layout, &subject.cgroup);
        for (name, id) in &subject.containers {
            plan.directories.push(directory(Part::Logs(name.clone()), logs(name), Vec::new()));
            let stats = sources.runtime.and_then(|layers| layers.get(id)).copied();
            let upper = match stats {
                Some(stats) if stats.age() <= NEW => None,
                _ => overlays.upper(id, container_group(&groups, id)),
            };
            let has_directory = upper.is_some();
            if let Some(upper) = upper {
                plan.directories.push(directory(Part::Layer(id.clone()), upper, Vec::new()));
            }
            plan.containers.push((name, id, stats, has_directory));
        }
        plan
    }

    /// `given_up`: whether a container's layer cannot be counted, by the id and whether something is known of
    /// it.
    fn sum(&self, of: impl Fn(&Part) -> DiskUse, given_up: impl Fn(&str, bool) -> bool) -> PodUse {
        let mut found = PodUse::default();
        found.disk.logs.add(of(&Part::OtherLogs));
        found.disk.volumes.add(of(&Part::PodDir));
        for (name, project) in &self.volumes {
            let mut used = of(&Part::Volume((*name).to_owned()));
            if let Some((_, least)) = project {
                used.bytes = used.bytes.max(least.bytes);
                used.inodes = used.inodes.max(least.inodes);
            }
            found.disk.volumes.add(used);
            found.volumes.insert((*name).to_owned(), used);
        }
        for (name, id, stats, has_directory) in &self.containers {
            let logs = of(&Part::Logs((*name).to_owned()));
            let counted = has_directory.then(|| of(&Part::Layer((*id).to_owned())));
            let known = layer(counted, *stats);
            let given_up = given_up(id, known.is_some());
            let root = known.unwrap_or(DiskUse { uncountable: given_up, ..DiskUse::UNKNOWN });
            found.disk.logs.add(logs);
            found.disk.root.add(root);
            let own = ContainerUse { memory: None, root: Some(root), logs: Some(logs) };
            found.containers.insert((*name).to_owned(), own);
        }
        found
    }
}

/// A container may give its volume another project. What belongs to one that several volumes have is no
/// volume's figure.
fn forget_shared_projects(plans: &mut [Plan<'_>]) {
    let mut volumes: BTreeMap<u32, usize> = BTreeMap::new();
    for (project, _) in plans.iter().flat_map(|plan| &plan.volumes).filter_map(|(_, project)| *project) {
        *volumes.entry(project).or_default() += 1;
    }
    for (_, project) in plans.iter_mut().flat_map(|plan| &mut plan.volumes) {
        project.take_if(|(project, _)| volumes.get(project).is_some_and(|number| *number > 1));
    }
}

/// The use of a writable layer: what the runtime read just now; what was counted, if that is all of it; what
/// the runtime read lately, unless more was counted already. `None` if nothing is known.
fn layer(counted: Option<DiskUse>, stats: Option<LayerStats>) -> Option<DiskUse> {
    let reported = stats.map(|stats| DiskUse {
        bytes: stats.bytes,
        inodes: stats.inodes,
        // Without a directory there is nothing else to go by.
        complete: counted.is_none() || stats.age() <= RECENT,
        uncountable: false,
        device: counted.and_then(|counted| counted.device),
    });
    match (counted, reported) {
        (_, Some(reported)) if stats.is_some_and(|stats| stats.age() <= NEW) => Some(reported),
        (Some(counted), Some(reported)) if !counted.complete => Some(reported.at_least(counted)),
        (counted, reported) => counted.or(reported),
    }
}

/// Names of the pod's `emptyDir` volumes that are not in memory.
fn disk_volumes(pod: &Pod) -> impl Iterator<Item = &str> {
    let on_disk = pod.empty_dirs.iter().filter(|volume| volume.medium == Some(Medium::Disk));
    on_disk.map(|volume| &*volume.name)
}

#[cfg(test)]
mod tests;
