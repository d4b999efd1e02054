//! Carries out what the other modules decide: reads the node, sets policies in the kernel, and keeps what is
//! shown.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use nodewarden_config::Enforcement;
use nodewarden_machine::cgroup::Layout;
use nodewarden_manifest::Pod;
use nodewarden_metrics::Own;
use nodewarden_model::{DevicesView, HostDevice};
use parking_lot::Mutex;

use super::cdi::Cdi;
use super::given::Given;
use super::held::{Held, Sources, held};
use super::kubelet::{Answer, checkpoint};
use super::loss::{Change, Losses};
use super::node::{Numbers, Root, numbers};
use super::policy::{Decision, Known, decide, is_privileged, watched};
use super::shown::shown;
use crate::checkpoint::Checkpoint;
use crate::enforce::{EnforceError, Enforcer};
use crate::policy;

/// What the guards are made with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What is done about accesses.
    pub mode: Enforcement,
    /// The kubelet's directory of device plugins.
    pub plugin_directory: PathBuf,
    /// Where the file system of the node is seen.
    pub host_root: PathBuf,
    /// Paths of further devices of resources.
    pub extra: BTreeMap<String, Vec<String>>,
    /// There is a container runtime to ask.
    pub has_runtime: bool,
}

/// A pod that the API server has bound to this node and whose cgroup is there.
#[derive(Debug, Clone)]
pub struct Seen {
    /// As the API server has it.
    pub pod: Arc<Pod>,
    /// It wants to be left alone.
    pub opted_out: bool,
    /// Its cgroup, below the mounts.
    pub cgroup: String,
    /// Its containers.
    pub containers: Vec<SeenContainer>,
}

/// A container of such a pod.
#[derive(Debug, Clone)]
pub struct SeenContainer {
    /// Its name in the spec; empty if it is not known.
    pub name: String,
    /// The runtime's id.
    pub id: String,
    /// Its cgroup, below the mounts.
    pub cgroup: String,
    /// Its cgroup has got its device rules.
    pub has_rules: bool,
}

/// What a round has found.
#[derive(Debug, Default)]
pub struct Round {
    /// Devices that were lost or are back.
    pub changes: Vec<Change>,
    /// What is wrong, as sentences, each as long as it holds.
    pub problems: Vec<String>,
}

/// What others read of it. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ShownDevices(Arc<Mutex<DevicesView>>);

impl ShownDevices {
    /// Who has what.
    pub fn view(&self) -> DevicesView {
        self.0.lock().clone()
    }
}

/// Who has what beside a kubelet, and what is done about it.
pub struct BesideGuards {
    settings: Settings,
    layout: Layout,
    enforcer: Option<Enforcer>,
    /// What is watched, and at which path it was last.
    watched: BTreeMap<Numbers, String>,
    /// What the runtime has said, by container id.
    by_runtime: BTreeMap<String, Vec<HostDevice>>,
    guarded: BTreeSet<String>,
    given: Given,
    losses: Losses,
    shown: ShownDevices,
}

impl BesideGuards {
    /// Nothing is watched yet.
    pub fn new(settings: Settings, layout: Layout) -> Self {
        Self {
            settings,
            layout,
            enforcer: None,
            watched: BTreeMap::new(),
            by_runtime: BTreeMap::new(),
            guarded: BTreeSet::new(),
            given: Given::default(),
            losses: Losses::default(),
            shown: ShownDevices::default(),
        }
    }

    /// From now on policies are set by this one.
    pub fn enforce_by(&mut self, enforcer: Enforcer) {
        self.enforcer = Some(enforcer);
    }

    /// Who has what, as of the last round.
    pub fn shown(&self) -> &ShownDevices {
        &self.shown
    }

    /// The containers whose devices the runtime has to be asked for; empty while no container has a device.
    pub fn to_ask(&self, answer: &Answer, seen: &[Seen]) -> Vec<String> {
        let containers = || answer.pods.iter().flat_map(|pod| &pod.containers);
        let has_devices = containers().any(|own| !own.devices.is_empty() || !own.claims.is_empty());
        if !self.settings.has_runtime
            || !has_devices && self.watched.is_empty() && self.settings.extra.is_empty()
        {
            return Vec::new();
        }
        let own = seen.iter().filter(|seen| !is_privileged(&seen.pod)).flat_map(|seen| &seen.containers);
        own.map(|own| &own.id).filter(|id| !self.by_runtime.contains_key(*id)).cloned().collect()
    }

    /// Takes the devices of a container as its runtime has them.
    pub fn set_runtime_devices(&mut self, id: String, devices: Vec<HostDevice>) {
        self.by_runtime.insert(id, devices);
    }

    /// One round, which blocks on files. `answer` was given after these pods were seen; without it, for this
    /// reason, nothing is decided of new ones. `uid` finds the uid of a pod by namespace and name.
    pub fn round(
        &mut self,
        answer: Result<&Answer, &str>,
        seen: &[Seen],
        uid: &dyn Fn(&str, &str) -> Option<String>,
    ) -> Round {
        let mut round = Round::default();
        self.forget_gone(seen);
        let decided = match answer {
            Ok(answer) => Some((answer, self.decide(answer, seen, uid, &mut round))),
            Err(why) => {
                round.problems.push(why.to_owned());
                None
            }
        };
        let root = Root::new(&self.settings.host_root);
        let looks = self.given.looks(seen, &self.layout, |path| root.nodes(path), &mut round.problems);
        round.changes = self.losses.update(looks);
        ::metrics::gauge!(Own::AugmentDevicesLost.name()).set(self.losses.count() as f64);
        match decided {
            Some((answer, (held, checkpoint))) => {
                let registered = checkpoint.as_ref().map(|own| &own.registered);
                let why = |uid: &str, container: &str, path: &str| {
                    self.given.why(seen, uid, container, path, &self.losses)
                };
                *self.shown.0.lock() = shown(answer, registered, &held, why, &round.problems);
            }
            None => self.shown.0.lock().problems.clone_from(&round.problems),
        }
        round
    }

    fn forget_gone(&mut self, seen: &[Seen]) {
        let pods: BTreeSet<&str> = seen.iter().map(|seen| seen.pod.uid.as_str()).collect();
        let gone: Vec<String> =
            self.guarded.iter().filter(|uid| !pods.contains(uid.as_str())).cloned().collect();
        gone.iter().for_each(|uid| self.leave(uid));
        let containers: BTreeSet<&str> =
            seen.iter().flat_map(|seen| &seen.containers).map(|own| own.id.as_str()).collect();
        self.by_runtime.retain(|id, _| containers.contains(id.as_str()));
        self.given.retain(|id| containers.contains(id));
    }

    fn leave(&mut self, uid: &str) {
        if self.guarded.remove(uid)
            && let Some(enforcer) = &self.enforcer
        {
            enforcer.forget(uid);
        }
    }

    /// Sets policies and what is watched. Returns who has what, and the kubelet's checkpoint.
    fn decide(
        &mut self,
        answer: &Answer,
        seen: &[Seen],
        uid: &dyn Fn(&str, &str) -> Option<String>,
        round: &mut Round,
    ) -> (Vec<Held>, Option<Checkpoint>) {
        let root = Root::new(&self.settings.host_root);
        let checkpoint = checkpoint(&self.settings.plugin_directory).unwrap_or_else(|error| {
            round.problems.push(error.to_string());
            None
        });
        let cdi = Cdi::read(root.path());
        round.problems.extend(cdi.problems.iter().cloned());
        let extra = self.settings.extra.iter();
        let extra: BTreeMap<String, Vec<HostDevice>> = extra
            .map(|(resource, paths)| {
                (resource.clone(), paths.iter().flat_map(|path| root.matching(path)).collect())
            })
            .collect();
        let nodes = |path: &str| root.nodes(path);
        let sources =
            Sources { checkpoint: checkpoint.as_ref(), cdi: &cdi, extra: &extra, uid, nodes: &nodes };
        let held = held(answer, &sources);
        for seen in seen {
            self.given.add(seen, &held, &self.by_runtime);
            self.apply(seen, &held, answer, checkpoint.as_ref(), &root, round);
        }
        self.watch(&held, answer, &cdi, &extra, &root, round);
        (held, checkpoint)
    }

    fn apply(
        &mut self,
        seen: &Seen,
        held: &[Held],
        answer: &Answer,
        checkpoint: Option<&Checkpoint>,
        root: &Root,
        round: &mut Round,
    ) {
        let pod = &*seen.pod;
        let own: Vec<&Held> = held.iter().filter(|own| own.uid == pod.uid).collect();
        let by_spec = policy::rules(pod, &[], &[], |path| root.nodes(path));
        let by_runtime: Vec<HostDevice> = seen
            .containers
            .iter()
            .filter_map(|own| self.by_runtime.get(&own.id))
            .flatten()
            .cloned()
            .collect();
        let asked = |own: &SeenContainer| !self.settings.has_runtime || self.by_runtime.contains_key(&own.id);
        let known = Known {
            pod,
            opted_out: seen.opted_out,
            listed: is_listed(pod, &own, answer, checkpoint),
            settled: !seen.containers.is_empty() && seen.containers.iter().all(asked),
            complete: pod
                .containers
                .iter()
                .all(|of_spec| seen.containers.iter().any(|own| own.name == of_spec.name)),
            by_spec: &by_spec,
            by_runtime: &by_runtime,
        };
        match decide(self.settings.mode, &known, &own) {
            Decision::Wait => {}
            Decision::Leave(_) => self.leave(&pod.uid),
            Decision::Guard(policy) => {
                let Some(enforcer) = &self.enforcer else { return };
                match enforcer.guard(&pod.uid, &seen.cgroup, policy) {
                    Ok(()) => drop(self.guarded.insert(pod.uid.clone())),
                    // It has just ended, or is not in the unified hierarchy.
                    Err(EnforceError::Cgroup { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => round.problems.push(format!("{}/{}: {error}", pod.namespace, pod.name)),
                }
            }
        }
    }

    /// Watches the devices, after every pod that has one may open it.
    fn watch(
        &mut self,
        held: &[Held],
        answer: &Answer,
        cdi: &Cdi,
        extra: &BTreeMap<String, Vec<HostDevice>>,
        root: &Root,
        round: &mut Round,
    ) {
        let mut belong: Vec<HostDevice> = extra.values().flatten().cloned().collect();
        for resource in resources(answer) {
            for node in cdi.of_kind(resource) {
                match &node.device {
                    Some(device) => belong.push(device.clone()),
                    None => belong.extend(root.nodes(&node.path).into_iter().flatten()),
                }
            }
        }
        // A device that no container has now is still watched while its path is the same device.
        let is_there = |device: &Numbers, path: &str| {
            root.nodes(path).is_some_and(|found| found.iter().any(|own| numbers(own) == *device))
        };
        self.watched.retain(|device, path| is_there(device, path));
        let before = self.watched.keys().copied().collect();
        let all = watched(held, &before, &belong);
        let paths = held.iter().flat_map(|own| &own.grants).map(|grant| &grant.device).chain(&belong);
        let paths: BTreeMap<Numbers, &str> = paths.map(|own| (numbers(own), own.path.as_str())).collect();
        for device in &all {
            let path = paths.get(device).map(|path| (*path).to_owned());
            if let Some(path) = path {
                self.watched.insert(*device, path);
            }
        }
        if let Some(enforcer) = &self.enforcer
            && (!all.is_empty() || !before.is_empty())
            && let Err(error) = enforcer.watch(&all)
        {
            round.problems.push(error.to_string());
        }
    }
}

/// The resources of device plugins that the kubelet names.
fn resources(answer: &Answer) -> BTreeSet<&str> {
    let held = answer.pods.iter().flat_map(|pod| &pod.containers).flat_map(|own| own.devices.keys());
    held.chain(answer.allocatable.iter().flat_map(BTreeMap::keys)).map(String::as_str).collect()
}

/// Whether the kubelet lists the pod, with all that its checkpoint has of it.
fn is_listed(pod: &Pod, held: &[&Held], answer: &Answer, checkpoint: Option<&Checkpoint>) -> bool {
    let is_there = answer.pods.iter().any(|own| own.namespace == pod.namespace && own.name == pod.name);
    let mut entries = checkpoint.iter().flat_map(|own| &own.entries).filter(|entry| entry.pod_uid == pod.uid);
    is_there
        && entries.all(|entry| {
            held.iter()
                .any(|own| own.container == entry.container_name && own.resource == entry.resource_name)
        })
}

#[cfg(test)]
mod tests;
