//! Reads the limits of pods and containers. A file whose text is that of the last reading is not looked at
//! further: on a node where nothing changes, a reading opens, reads and closes each file once.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nodewarden_machine::cgroup::{Controller, Layout, Version};
use nodewarden_manifest::{Pod, Resources};

use super::SeenPod;
use super::gather::{
    amount, container_resources, directory, pod_resources, quota, quota_file, quota_of, value,
};
use super::limit_text::NO_LIMIT;
use super::limits::Limit;
use crate::ledger::machine::{Files, Machine};
use crate::wanted::Place;

/// A cgroup is not looked at before it is so old: it gets its limits one after the other.
const SETTLED: Duration = Duration::from_secs(10);
/// A period of a cgroup without a quota, in microseconds: that of the kernel and of the kubelet.
const PERIOD: u64 = 100_000;
/// The controllers with limits.
const CONTROLLERS: [Controller; 2] = [Controller::Memory, Controller::Cpu];

/// The limits as they were read last, by the cgroup's path.
#[derive(Debug, Default)]
pub struct LimitFiles(HashMap<String, Known>);

#[derive(Debug)]
struct Known {
    pod: Arc<Pod>,
    container: String,
    /// For each of [`CONTROLLERS`]: the text and what it says.
    limits: [Option<(String, Limit)>; 2],
}

impl LimitFiles {
    /// Whether the last reading had the limits of all of these.
    pub fn has(&self, pods: &[SeenPod]) -> bool {
        let containers = |seen: &SeenPod| seen.containers.iter().all(|own| self.0.contains_key(&own.cgroup));
        pods.iter().all(|seen| self.0.contains_key(&seen.cgroup) && containers(seen))
    }

    /// The limits of the pods and their containers now. A cgroup that was made again under the same path
    /// since the last reading is only noticed if its limits differ.
    pub fn read(&mut self, layout: &Layout, pods: &[SeenPod]) -> Vec<Limit> {
        let mut before = std::mem::take(&mut self.0);
        let mut all = Vec::new();
        for seen in pods {
            let containers = seen.containers.iter().map(|own| (&own.cgroup, &*own.name, own.age));
            for (cgroup, container, age) in [(&seen.cgroup, "", seen.age)].into_iter().chain(containers) {
                let group = Group { pod: &seen.pod, cgroup, container, is_pod: *cgroup == seen.cgroup };
                let is_same =
                    |known: &Known| Arc::ptr_eq(&known.pod, &seen.pod) && known.container == container;
                let known = before.remove(cgroup).filter(is_same);
                let mut last = known.map_or([None, None], |known| known.limits);
                let limits = [0, 1].map(|at| group.limit(layout, CONTROLLERS[at], last[at].take()));
                let now = limits.iter().flatten().map(|(_, limit)| limit.clone());
                all.extend(now.map(|limit| Limit { is_new: age < SETTLED, ..limit }));
                let known = Known { pod: seen.pod.clone(), container: container.to_owned(), limits };
                self.0.insert(cgroup.clone(), known);
            }
        }
        all
    }
}

/// The cgroup of a pod or of one of its containers.
struct Group<'a> {
    pod: &'a Pod,
    cgroup: &'a str,
    container: &'a str,
    is_pod: bool,
}

impl Group<'_> {
    /// The limit of this controller; `last` if the file's text is still the same.
    fn limit(
        &self,
        layout: &Layout,
        controller: Controller,
        last: Option<(String, Limit)>,
    ) -> Option<(String, Limit)> {
        let (directory, version) = directory(layout, controller, self.cgroup)?;
        let file = match (controller, version) {
            (Controller::Memory, Version::V1) => "memory.limit_in_bytes",
            (Controller::Memory, Version::V2) => "memory.max",
            _ => quota_file(version),
        };
        let last = last.filter(|(text, _)| value(&directory, file).as_ref() == Some(text));
        last.or_else(|| self.read(controller, &directory, version, file))
    }

    /// Reads the limit together with which cgroup it is of.
    fn read(
        &self,
        controller: Controller,
        directory: &Path,
        version: Version,
        file: &'static str,
    ) -> Option<(String, Limit)> {
        let (text, identity) = Files.read(&Place::new(directory, file)).ok()??;
        let resources = self.resources();
        let (value, by_spec) = match controller {
            Controller::Memory => {
                let bytes = |own: &Resources| own.limits.get("memory").map(|own| amount(own.value()));
                (text.parse().ok().filter(|bytes| *bytes < NO_LIMIT), resources.as_ref().map(bytes))
            }
            _ => {
                let quota = quota(directory, version, &text);
                let period = quota.map_or(PERIOD, |(_, period)| period);
                let of_spec = |own: &Resources| quota_of(own, period);
                (quota.map(|(quota, _)| quota), resources.as_ref().map(of_spec))
            }
        };
        let limit = Limit {
            cgroup: self.cgroup.to_owned(),
            pod: self.pod.uid.clone(),
            container: self.container.to_owned(),
            file,
            identity,
            value,
            by_spec,
            spec: digest(self.pod),
            is_new: false,
        };
        Some((text, limit))
    }

    fn resources(&self) -> Option<Resources> {
        match self.is_pod {
            true => Some(pod_resources(self.pod)),
            false => container_resources(self.pod, self.container).cloned(),
        }
    }
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

#[cfg(test)]
mod tests;
