//! What the API reads of the running agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use nix::sys::resource::{UsageWho, getrusage};

use super::augment::ApiPods;
use super::context::Context;
use super::node_parts::NodeParts;
use super::privileges::Privileges;
use super::resource_managers;
use super::system_cgroups::SystemCgroupLookup;
use nodewarden_devices::beside::ShownDevices;
use nodewarden_devices::{Devices, Enforcer};
use nodewarden_eviction::engine::Engine;
use nodewarden_exclusive_cpus::{ExclusiveCpuWatch, ShownExclusiveCpus};
use nodewarden_gc::Collector;
use nodewarden_hierarchy::StatusReader;
use nodewarden_lifecycle::SetAside;
use nodewarden_machine::cgroup::workloads;
use nodewarden_machine::ebpf::map_bytes;
use nodewarden_model::{
    AgentCost, AgentState, CpuMapView, DenialCount, DevicesView, EvictionStatus, ExclusiveCpusView, ImageGc,
    PodView, ProbesView, Snapshot, Status, SystemCgroups, Workload,
};
use nodewarden_observer::Observer;
use nodewarden_pods::probes::Probes;
use nodewarden_pods::status::PodStatusCache;
use nodewarden_resource_managers::ResourceManagers;
use nodewarden_storage::journal::{Journal, JournalStats};
use nodewarden_tasks::parts::Parts;

/// Built once, after the parts that it reads from. What the mode does without is `None`.
pub struct State {
    observer: Arc<Observer>,
    journal: Journal,
    pods: PodStatusCache,
    gc: Option<Collector>,
    eviction: Option<Engine>,
    probes: Option<Probes>,
    hierarchy: Option<StatusReader>,
    devices: Option<Devices>,
    enforcer: Option<Enforcer>,
    /// Those of a kubelet, and what knows the names of its pods.
    beside: Option<(ShownDevices, ApiPods)>,
    exclusive_cpus: Option<ShownExclusiveCpus>,
    managers: Option<ResourceManagers>,
    system_cgroups: SystemCgroupLookup,
    set_aside: Option<SetAside>,
    privileges: Privileges,
}

impl State {
    pub fn new(context: Context<'_>, node: &NodeParts, privileges: Privileges) -> Self {
        let beside = node.augment.as_ref().and_then(|augment| augment.devices.as_ref());
        Self {
            privileges,
            observer: context.observer.clone(),
            journal: context.journal.clone(),
            pods: context.pods.clone(),
            gc: node.gc.clone(),
            eviction: node.eviction.as_ref().map(|eviction| eviction.engine.clone()),
            probes: node.probes.clone(),
            hierarchy: node.hierarchy.as_ref().map(|hierarchy| hierarchy.status()),
            devices: node.devices.as_ref().map(|devices| devices.manager.clone()),
            enforcer: match &beside {
                Some(beside) => beside.enforcer.clone(),
                None => node.devices.as_ref().and_then(|devices| devices.enforcer.clone()),
            },
            beside: beside.map(|beside| (beside.shown.clone(), beside.known.clone())),
            managers: node.managers.clone(),
            exclusive_cpus: node.exclusive_cpus.as_ref().map(ExclusiveCpuWatch::shown).cloned(),
            system_cgroups: SystemCgroupLookup::new(context.config, &context.observer.facts.layout),
            set_aside: node.pods.as_ref().map(|pods| pods.set_aside().clone()),
        }
    }

    /// Accesses to devices that were not given to the pod, with its name.
    fn denials(&self) -> Vec<DenialCount> {
        let mut denials = self.enforcer.as_ref().map(Enforcer::denials).unwrap_or_default();
        let pods = self.pods.pods();
        for count in &mut denials {
            let managed = pods.iter().map(|view| &view.pod).find(|pod| pod.uid == count.uid);
            let managed = managed.map(|pod| (pod.namespace.clone(), pod.name.clone()));
            let known = || self.beside.as_ref().and_then(|(_, known)| known.get(&count.uid));
            let named = managed.or_else(|| known().map(|pod| (pod.namespace.clone(), pod.name.clone())));
            (count.namespace, count.name) = named.unwrap_or_default();
        }
        denials
    }

    /// What is off or failing and shown nowhere else.
    fn warnings(&self, journal: &JournalStats) -> Vec<String> {
        let mut warnings: Vec<String> =
            journal.disk_error.iter().map(|error| format!("journal on disk: {error}")).collect();
        let missing = self.observer.facts.layout.missing();
        if !missing.is_empty() {
            let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
            warnings.push(format!("controllers that are not mounted: {}", names.join(", ")));
        }
        for (path, problem) in self.set_aside.iter().flat_map(SetAside::shown) {
            warnings
                .push(format!("volumes of a pod that has ended are left at {}: {problem}", path.display()));
        }
        let unhealthy = Parts::of_process().health().into_iter();
        let unhealthy = unhealthy.filter_map(|own| Some(format!("{}: {}", own.part, own.problem?)));
        warnings.extend(unhealthy);
        warnings
    }
}

impl AgentState for State {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.observer.sample()
    }

    fn status(&self) -> Status {
        let facts = &self.observer.facts;
        let journal = self.journal.stats();
        let (programs, measured) = self.observer.program_costs();
        let coverage = self.observer.coverage();
        let enforcement = self.enforcer.as_ref().map(Enforcer::state);
        let exclusive_cpus = self.exclusive_cpus.as_ref().map(ShownExclusiveCpus::topic);
        Status {
            version: nodewarden_model::version().to_owned(),
            mode: facts.mode.to_owned(),
            started: facts.started,
            cgroup_layout: facts.layout.kind().to_string(),
            controllers: facts.layout.describe_controllers(),
            kernel_version: facts.kernel_version.clone(),
            topics: facts.topics.iter().cloned().chain(enforcement).chain(exclusive_cpus).collect(),
            programs,
            programs_measured_seconds: measured.as_secs_f64(),
            events: self.observer.event_counts(),
            cgroups: coverage.tracked,
            cgroup_capacity: facts.capacity,
            cgroups_untracked: coverage.untracked,
            untracked_counts: coverage.untracked_counts,
            cost: cost(self.observer.mapped_bytes()),
            runtime: self.observer.names.describe(),
            warnings: self.warnings(&journal),
            journal_events: journal.events,
            journal_write_errors: journal.write_errors,
            device_denials: self.denials(),
            hierarchy: self.hierarchy.as_ref().map(StatusReader::read),
            privileges: self.privileges.now(),
        }
    }

    fn devices(&self) -> DevicesView {
        let view = match (&self.beside, &self.devices) {
            (Some((shown, _)), _) => shown.view(),
            (None, Some(devices)) => devices.view(&self.pods.pods()),
            (None, None) => return DevicesView::default(),
        };
        DevicesView { denials: self.denials(), ..view }
    }

    fn exclusive_cpus(&self) -> ExclusiveCpusView {
        self.exclusive_cpus.as_ref().map(ShownExclusiveCpus::view).unwrap_or_default()
    }

    fn cpu_map(&self) -> CpuMapView {
        self.managers
            .as_ref()
            .map(|managers| resource_managers::view(managers, &self.pods.pods()))
            .unwrap_or_default()
    }

    fn probes(&self) -> ProbesView {
        self.probes.as_ref().map(Probes::view).unwrap_or_default()
    }

    fn image_gc(&self) -> Option<Arc<dyn ImageGc>> {
        self.gc.clone().map(|collector| Arc::new(collector) as _)
    }

    fn eviction(&self) -> Option<Arc<dyn EvictionStatus>> {
        self.eviction.clone().map(|engine| Arc::new(engine) as _)
    }

    fn runtime_name(&self) -> Option<String> {
        self.observer.names.runtime_name()
    }

    fn system_cgroups(&self) -> SystemCgroups {
        self.system_cgroups.get()
    }

    fn workloads(&self, snapshot: &Snapshot) -> BTreeMap<String, Workload> {
        workloads(&self.observer.facts.layout, &snapshot.groups)
    }

    fn pods(&self) -> Vec<Arc<PodView>> {
        self.pods.pods()
    }

    fn shown_pods(&self) -> Vec<Arc<PodView>> {
        self.pods.shown()
    }
}

/// What this process uses: CPU by getrusage(2), resident memory without the mapped eBPF arrays, which are
/// reported separately.
fn cost(mapped_bytes: u64) -> AgentCost {
    let cpu_seconds = getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        [usage.user_time(), usage.system_time()]
            .iter()
            .map(|t| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6)
            .sum()
    });
    let status = procfs::process::Process::myself().and_then(|p| p.status()).ok();
    let resident = status.and_then(|s| s.vmrss).map_or(0, |kilobytes| kilobytes * 1024);
    AgentCost { cpu_seconds, resident_bytes: resident.saturating_sub(mapped_bytes), map_bytes: map_bytes() }
}
