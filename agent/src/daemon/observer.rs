//! The agent's eyes: holds the registry, the sampler and the kernel programs, and answers what the surfaces ask.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use nodewarden_ebpf_abi::Kind;
use tracing::warn;

use super::names::Names;
use nodewarden_devices::enforce;
use nodewarden_devices::enforce::Enforcer;
use nodewarden_eviction::wake::Teller;
use nodewarden_machine::cgroup::{Hierarchy, Layout};
use nodewarden_machine::ebpf::{Cells, Kernel, MonotonicClock, Record, map_bytes};
use nodewarden_model::{
    AgentCost, AgentState, Detail, DevicesView, EventCounts, EventType, EvictionStatus, HierarchyStatus,
    HookState, Identity, ImageGc, PodRef, PodView, ProbesView, Snapshot, Status, TopicStatus,
};
use nodewarden_observer::registry::{Happened, Registry};
use nodewarden_observer::sampler::Sampler;
use nodewarden_observer::tree;
use nodewarden_pods::status::Board;
use nodewarden_storage::journal::Journal;

/// Readings asked for within this time of another share it.
const SHARE: Duration = Duration::from_millis(20);

/// Everything that does not change after start.
pub struct Facts {
    pub mode: &'static str,
    pub started: SystemTime,
    pub layout: Layout,
    pub spaces: nodewarden_machine::ebpf::Spaces,
    pub kernel_version: String,
    pub capacity: u64,
    pub topics: Vec<TopicStatus>,
}

/// How the status of the hierarchy is had, in manage mode.
type HierarchyReader = Box<dyn Fn() -> HierarchyStatus + Send>;

/// How devices are had, in manage mode.
type DevicesReader = Box<dyn Fn() -> DevicesView + Send>;

/// How probes are had, in manage mode.
type ProbesReader = Box<dyn Fn() -> ProbesView + Send>;

/// See the module.
pub struct Observer {
    pub facts: Facts,
    pub registry: Arc<Mutex<Registry>>,
    pub sampler: Mutex<Sampler>,
    pub kernel: Mutex<Option<Kernel>>,
    pub cells: Option<Arc<Cells>>,
    pub journal: Journal,
    pub names: Names,
    pub seen: Arc<Seen>,
    latest: Mutex<Option<(Instant, Arc<Snapshot>)>>,
    /// Cgroups that a walk found and that got no slot.
    untracked: AtomicU64,
    told_lost: Mutex<[u64; Kind::COUNT]>,
    suspects: Mutex<HashSet<(usize, u64)>>,
    hierarchy: Mutex<Option<HierarchyReader>>,
    devices: Mutex<Option<DevicesReader>>,
    probes: Mutex<Option<ProbesReader>>,
    enforcer: Mutex<Option<Enforcer>>,
    garbage: Mutex<Option<Arc<dyn ImageGc>>>,
    pressed: Mutex<Option<Arc<dyn EvictionStatus>>>,
    /// Woken by what the kernel programs tell of memory.
    teller: Mutex<Option<Teller>>,
    /// Where the lifecycle hangs its pods out.
    pub board: Board,
}

/// Events taken from the ring, by type.
#[derive(Debug, Default)]
pub struct Seen([AtomicU64; EventType::ALL.len()]);

impl Seen {
    pub fn count(&self, kind: EventType) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, kind: EventType) -> u64 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }
}

impl Observer {
    pub fn new(
        facts: Facts,
        registry: Arc<Mutex<Registry>>,
        sampler: Sampler,
        kernel: Option<Kernel>,
        cells: Option<Arc<Cells>>,
        journal: Journal,
        names: Names,
    ) -> Self {
        Self {
            facts,
            registry,
            sampler: Mutex::new(sampler),
            kernel: Mutex::new(kernel),
            cells,
            journal,
            names,
            seen: Arc::default(),
            latest: Mutex::new(None),
            untracked: AtomicU64::new(0),
            told_lost: Mutex::new([0; Kind::COUNT]),
            suspects: Mutex::default(),
            hierarchy: Mutex::default(),
            devices: Mutex::default(),
            probes: Mutex::default(),
            enforcer: Mutex::default(),
            pressed: Mutex::default(),
            teller: Mutex::default(),
            garbage: Mutex::default(),
            board: Board::default(),
        }
    }

    /// From now on devices are shown as `read` tells them.
    pub fn show_devices(&self, read: impl Fn() -> DevicesView + Send + 'static) {
        *self.devices.lock() = Some(Box::new(read));
    }

    /// From now on probes are shown as `read` tells them.
    pub fn show_probes(&self, read: impl Fn() -> ProbesView + Send + 'static) {
        *self.probes.lock() = Some(Box::new(read));
    }

    /// From now on images are shown, and collected when somebody asks for it, as `garbage` does it.
    pub fn show_garbage(&self, garbage: Arc<dyn ImageGc>) {
        *self.garbage.lock() = Some(garbage);
    }

    /// From now on the status shows what `read` tells of the hierarchy.
    /// From now on this is woken by what the kernel programs tell of memory.
    pub fn wake(&self, teller: Teller) {
        *self.teller.lock() = Some(teller);
    }

    pub fn show_pressed(&self, pressed: Arc<dyn EvictionStatus>) {
        *self.pressed.lock() = Some(pressed);
    }

    pub fn show_hierarchy(&self, read: impl Fn() -> HierarchyStatus + Send + 'static) {
        *self.hierarchy.lock() = Some(Box::new(read));
    }

    /// From now on the status shows what holds pods to their devices. That it cannot is told.
    pub fn show_enforcer(&self, enforcer: Enforcer) {
        let topic = enforcer.state();
        if topic.state != HookState::On {
            let message = format!("{} is {}: {}", topic.topic.name(), topic.state.name(), topic.reason);
            warn!("{message}");
            let detail = Detail::Agent { reason: "FeatureOff".into(), message };
            self.journal.append(Timestamp::now(), "", None, detail);
        }
        *self.enforcer.lock() = Some(enforcer);
    }

    /// Adds cgroups that were found and got no slot.
    pub fn count_untracked(&self, cgroups: u64) {
        self.untracked.fetch_add(cgroups, Ordering::Relaxed);
    }

    /// Takes one record of the kernel side: into the registry, and into the journal if it tells something.
    pub fn on_record(&self, record: &Record) {
        if let Record::Oom(_) | Record::Reclaim(_) = record
            && let Some(teller) = &*self.teller.lock()
        {
            teller.tell(if let Record::Oom(_) = record { "eBPF OOM" } else { "eBPF reclaim" });
        }
        let time = MonotonicClock::wall(record.header().time_ns);
        if let Some(kind) = type_of(record) {
            self.seen.count(kind);
        }
        let happened = self.registry.lock().apply(record, time);
        if let Some(mut happened) = happened {
            if let Detail::Device(access) = &mut happened.detail {
                access.path = enforce::path_of(&access.device).unwrap_or_default();
            }
            self.tell(happened);
        }
    }

    fn tell(&self, happened: Happened) {
        let pod = happened.identity.as_ref().and_then(|identity| pod_ref(&self.names.name(identity)));
        self.journal.append(happened.time, &*happened.path, pod, happened.detail);
    }

    /// Walks the tree and tells what the records missed. True when another walk is needed soon.
    pub fn reconcile(&self, after_loss: bool) -> bool {
        let hierarchies: Vec<&Hierarchy> = tree::hierarchies(&self.facts.layout, &self.facts.spaces);
        let mut suspects = self.suspects.lock();
        let walked = {
            let mut sampler = self.sampler.lock();
            let pool = sampler.kernel.as_mut().map(|k| &mut k.pool);
            let again = after_loss || !suspects.is_empty();
            tree::reconcile(&hierarchies, &self.registry, pool, Timestamp::now(), again, &suspects)
        };
        self.count_untracked(walked.untracked);
        for happened in walked.happened {
            self.tell(happened);
        }
        *suspects = walked.suspects;
        !suspects.is_empty()
    }

    /// Tells of records that found the ring full; true when cgroups came or went unseen by it.
    pub fn tell_lost(&self) -> bool {
        let Some(cells) = &self.cells else { return false };
        let mut told = self.told_lost.lock();
        let mut tree_changed = false;
        for kind in Kind::ALL {
            let lost = cells.lost(kind);
            let before = std::mem::replace(&mut told[kind as usize], lost);
            if let Some(event_type) = event_type(kind).filter(|_| lost > before) {
                let lost_type = event_type.name().to_owned();
                let detail = Detail::Lost { lost_type, count: lost - before };
                self.journal.append(Timestamp::now(), "", None, detail);
                tree_changed |= matches!(kind, Kind::Created | Kind::Removed);
            }
        }
        tree_changed
    }

    /// Has figures of every cgroup in case it is gone when somebody asks for them.
    pub fn remember(&self) {
        self.sampler.lock().remember(&self.registry, |identity| self.names.name(identity));
    }

    /// Lets go of the last reading, once nobody shares it any more: it has every cgroup.
    pub fn forget_latest(&self) {
        self.latest.lock().take_if(|(when, _)| when.elapsed() >= SHARE);
    }

    /// Reads everything now.
    pub fn sample(&self) -> Arc<Snapshot> {
        let mut sampler = self.sampler.lock();
        // Who waited for another reading takes that one.
        if let Some((when, snapshot)) = &*self.latest.lock()
            && when.elapsed() < SHARE
        {
            return snapshot.clone();
        }
        let snapshot = Arc::new(sampler.sample(&self.registry, |identity| self.names.name(identity)));
        *self.latest.lock() = Some((Instant::now(), snapshot.clone()));
        snapshot
    }
}

impl AgentState for Observer {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.sample()
    }

    fn devices(&self) -> DevicesView {
        self.devices.lock().as_ref().map(|read| read()).unwrap_or_default()
    }

    fn probes(&self) -> ProbesView {
        self.probes.lock().as_ref().map(|read| read()).unwrap_or_default()
    }

    fn image_gc(&self) -> Option<Arc<dyn ImageGc>> {
        self.garbage.lock().clone()
    }

    fn eviction(&self) -> Option<Arc<dyn EvictionStatus>> {
        self.pressed.lock().clone()
    }

    fn pods(&self) -> Vec<Arc<PodView>> {
        self.board.pods()
    }

    fn status(&self) -> Status {
        let journal = self.journal.stats();
        let mut warnings: Vec<String> =
            journal.disk_error.iter().map(|e| format!("journal on disk: {e}")).collect();
        let missing = self.facts.layout.missing();
        if !missing.is_empty() {
            let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
            warnings.push(format!("controllers that are not mounted: {}", names.join(", ")));
        }
        let lost = |kind: Kind| self.cells.as_ref().map_or(0, |cells| cells.lost(kind));
        let events = EventType::ALL
            .into_iter()
            .map(|event_type| EventCounts {
                event_type,
                seen: self.seen.of(event_type),
                lost: Kind::ALL
                    .into_iter()
                    .filter(|k| self::event_type(*k) == Some(event_type))
                    .map(lost)
                    .sum(),
            })
            .collect();
        let (programs, measured) =
            self.kernel.lock().as_ref().map(|k| (k.costs(), k.measured())).unwrap_or_default();
        // Each in a statement of its own: a guard inside the literal below would be held to its end, and whoever
        // holds the sampler waits for the registry.
        let cgroups = self.registry.lock().counted() as u64;
        let enforcer = self.enforcer.lock().clone();
        let device = enforcer.as_ref().map(Enforcer::state);
        let untracked_counts = self.sampler.lock().untracked_counts();
        Status {
            version: nodewarden_model::version().to_owned(),
            mode: self.facts.mode.to_owned(),
            started: self.facts.started,
            cgroup_layout: self.facts.layout.kind().to_string(),
            controllers: self.facts.layout.describe_controllers(),
            kernel_version: self.facts.kernel_version.clone(),
            topics: self.facts.topics.iter().cloned().chain(device).collect(),
            programs,
            programs_measured_seconds: measured.as_secs_f64(),
            events,
            cgroups,
            cgroup_capacity: self.facts.capacity,
            cgroups_untracked: self.untracked.load(Ordering::Relaxed)
                + self.cells.as_ref().map_or(0, |cells| cells.untracked()),
            untracked_counts,
            cost: cost(self.cells.as_ref().map_or(0, |cells| cells.mapped_bytes())),
            runtime: self.names.describe(),
            warnings,
            journal_events: journal.events,
            journal_write_errors: journal.write_errors,
            device_denials: enforcer.map(|enforcer| enforcer.denials()).unwrap_or_default(),
            hierarchy: self.hierarchy.lock().as_ref().map(|read| read()),
        }
    }
}

/// What only wakes somebody is no event.
fn type_of(record: &Record) -> Option<EventType> {
    Some(match record {
        Record::Created(_) => EventType::CgroupCreated,
        Record::Removed(_) => EventType::CgroupRemoved,
        Record::Populated(_) => EventType::CgroupPopulated,
        Record::Emptied(_) => EventType::CgroupEmptied,
        Record::Moved(_) => EventType::TaskMoved,
        Record::Oom(_) => EventType::Oom,
        Record::Exit(_) => EventType::Exit,
        Record::Device(_) => EventType::Device,
        Record::Reclaim(_) => return None,
    })
}

fn event_type(kind: Kind) -> Option<EventType> {
    Some(match kind {
        Kind::Created => EventType::CgroupCreated,
        Kind::Removed => EventType::CgroupRemoved,
        Kind::Populated => EventType::CgroupPopulated,
        Kind::Emptied => EventType::CgroupEmptied,
        Kind::Moved => EventType::TaskMoved,
        Kind::Oom => EventType::Oom,
        Kind::Exit => EventType::Exit,
        Kind::Device => EventType::Device,
        Kind::Reclaim => return None,
    })
}

/// Pod and container of an event's cgroup.
fn pod_ref(identity: &Identity) -> Option<PodRef> {
    let mut pod = PodRef {
        uid: identity.pod_uid()?.to_owned(),
        container_id: identity.container_id().unwrap_or_default().to_owned(),
        ..PodRef::default()
    };
    let (names, container) = match identity {
        Identity::Pod { names, .. } => (names.as_ref(), None),
        Identity::Container { pod, names, .. } => (pod.as_ref(), names.as_ref()),
        _ => (None, None),
    };
    if let Some(names) = names {
        pod.namespace.clone_from(&names.namespace);
        pod.name.clone_from(&names.name);
    }
    if let Some(container) = container {
        pod.container_name.clone_from(&container.name);
    }
    Some(pod)
}

/// What this process uses: CPU by getrusage(2), resident memory without the mapped eBPF arrays, which are stated
/// apart.
fn cost(mapped_bytes: u64) -> AgentCost {
    use nix::sys::resource::{UsageWho, getrusage};
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
