//! What is observed of the node's cgroups: takes the kernel programs' records in, walks the tree, and reads
//! counters and files.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use nodewarden_ebpf_abi::{Kind, LimitWriteRecord, Record};

use crate::limit_writes::LimitWrites;
use crate::names::Names;
use crate::registry::{Happened, Registry};
use crate::sampler::Sampler;
use crate::tree;
use crate::upkeep_request::UpkeepRequest;
use crate::write_notices::SeenWrite;
use nodewarden_machine::cgroup::{Hierarchy, Layout, identify, join, limit_changes};
use nodewarden_machine::device_nodes;
use nodewarden_machine::ebpf::{Cells, Kernel, MonotonicClock, Spaces};
use nodewarden_model::{
    Detail, EventCounts, EventType, HookState, Identity, LimitWrite, PodRef, ProgramCost, Snapshot, Topic,
    TopicStatus, Writer,
};
use nodewarden_storage::journal::Journal;

/// A reading that is younger than this is shared by those that ask for one.
const SHARE: Duration = Duration::from_millis(20);

/// Receives what the kernel programs saw of a shortage of memory, as text for people. Must not block.
pub type OnPressure = Box<dyn Fn(&'static str) + Send + Sync>;

/// What does not change after the start.
#[derive(Debug)]
pub struct Facts {
    /// The agent's mode, as in its configuration.
    pub mode: &'static str,
    /// When the agent started.
    pub started: SystemTime,
    /// The machine's cgroup hierarchies.
    pub layout: Layout,
    /// Those in which something is counted.
    pub spaces: Spaces,
    /// The kernel's release.
    pub kernel_version: String,
    /// Cgroups that can have counters at the same time.
    pub capacity: u64,
    /// Topics of the kernel programs, without enforcement of devices.
    pub topics: Vec<TopicStatus>,
    /// Whether every write to a limit of a cgroup is seen.
    pub sees_limit_writes: bool,
}

impl Facts {
    /// Whether a topic of the kernel programs works without restriction.
    pub fn is_on(&self, topic: Topic) -> bool {
        self.topics.iter().any(|status| status.topic == topic && status.state == HookState::On)
    }
}

/// See the module.
pub struct Observer {
    /// What does not change.
    pub facts: Facts,
    /// The cgroups that there are.
    pub registry: Arc<Mutex<Registry>>,
    /// Reads what they use.
    pub sampler: Mutex<Sampler>,
    /// The kernel programs; `None` where they can't be loaded.
    pub kernel: Mutex<Option<Kernel>>,
    /// Their counters.
    pub cells: Option<Arc<Cells>>,
    /// Names of pods and containers.
    pub names: Names,
    /// Asked for when there is something to tidy up: after a record of the kernel programs, and after a
    /// reading.
    pub upkeep: UpkeepRequest,
    journal: Journal,
    /// Called at OOM kills and when cgroups reclaim memory.
    on_pressure: OnPressure,
    received: EventCounters,
    /// Records of each kind that found the ring full, as of the last journal entry about it.
    reported_lost: Mutex<[u64; Kind::COUNT]>,
    /// Cgroups that a walk found and that got no slot.
    untracked: AtomicU64,
    /// Cgroups that the last walk could not account for, see [`tree::Walked::suspects`].
    suspects: Mutex<HashSet<(usize, u64)>>,
    /// Who has written limits of cgroups. Stays empty unless mode augment reports changed limits.
    limit_writes: Mutex<LimitWrites>,
    latest: Mutex<Option<(Instant, Arc<Snapshot>)>>,
}

/// Events taken from the ring, by type.
#[derive(Debug, Default)]
struct EventCounters([AtomicU64; EventType::ALL.len()]);

impl EventCounters {
    fn count(&self, kind: EventType) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, kind: EventType) -> u64 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }
}

/// How many cgroups have counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coverage {
    /// With counters now.
    pub tracked: u64,
    /// Left out so far because all slots were taken.
    pub untracked: u64,
    /// What was counted for cgroups without a slot.
    pub untracked_counts: u64,
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observer").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Observer {
    /// An observer that has seen nothing yet.
    pub fn new(
        facts: Facts,
        registry: Arc<Mutex<Registry>>,
        sampler: Sampler,
        kernel: Option<Kernel>,
        journal: Journal,
        names: Names,
        on_pressure: OnPressure,
    ) -> Self {
        Self {
            cells: sampler.kernel.as_ref().map(|counters| counters.cells.clone()),
            facts,
            registry,
            sampler: Mutex::new(sampler),
            kernel: Mutex::new(kernel),
            names,
            upkeep: UpkeepRequest::default(),
            journal,
            on_pressure,
            received: EventCounters::default(),
            reported_lost: Mutex::new([0; Kind::COUNT]),
            untracked: AtomicU64::new(0),
            suspects: Mutex::default(),
            limit_writes: Mutex::default(),
            latest: Mutex::new(None),
        }
    }

    /// Adds cgroups that were found and got no slot.
    pub fn count_untracked(&self, cgroups: u64) {
        self.untracked.fetch_add(cgroups, Ordering::Relaxed);
    }

    /// Takes one record of the kernel programs: into the registry, and into the journal if it is an event.
    pub fn on_record(&self, record: &Record) {
        self.take_in(record);
        // Last, so that the thread finds what the record has left to do.
        self.upkeep.ask();
    }

    fn take_in(&self, record: &Record) {
        match record {
            Record::Oom(_) => (self.on_pressure)("eBPF OOM"),
            Record::Reclaim(_) => (self.on_pressure)("eBPF reclaim"),
            Record::LimitWrite(write) => return self.keep(write),
            _ => {}
        }
        let time = MonotonicClock::at(record.header().time_ns);
        if let Some(event_type) = EventType::of(record.kind()) {
            self.received.count(event_type);
        }
        let happened = self.registry.lock().apply(record, time);
        if let Some(mut happened) = happened {
            if let Detail::Device(access) = &mut happened.detail {
                access.path = device_nodes::path_of(&access.device).unwrap_or_default();
            }
            self.record(happened);
        }
    }

    /// Keeps a write to a limit, with the path and the pod of the writer's cgroup: both may be gone when it
    /// is asked for.
    fn keep(&self, record: &LimitWriteRecord) {
        let of_memory = self.facts.spaces.memory;
        let path =
            of_memory.and_then(|space| self.registry.lock().path(space, record.writer_cgroup).cloned());
        let pod = path.as_deref().and_then(|path| self.pod_of(path));
        let path = path.map(|path| path.to_string()).unwrap_or_default();
        limit_changes::record();
        if let Some(write) = LimitWrite::of(record, path, pod) {
            self.limit_writes.lock().add(write);
        }
    }

    /// Keeps a write that fanotify has shown, with what stands in the file now: that, or what a later write
    /// has set, which is shown too.
    pub(crate) fn keep_seen(&self, seen: SeenWrite) {
        let SeenWrite { hierarchy, cgroup, file, pid, command, writer_cgroup } = seen;
        let space = self.facts.spaces.hierarchies.iter().position(|id| *id == hierarchy);
        let path = space.and_then(|space| self.registry.lock().path(space, cgroup).cloned());
        let mut hierarchies = self.facts.layout.hierarchies().iter();
        let hierarchy = hierarchies.find(|own| own.id == hierarchy);
        let (Some(path), Some(hierarchy)) = (path, hierarchy) else { return };
        let Ok(text) = std::fs::read_to_string(join(&hierarchy.mount, &path).join(file)) else { return };
        let pod = self.pod_of(&writer_cgroup);
        let writer = Writer { pid, command, cgroup: writer_cgroup, pod };
        limit_changes::record();
        self.limit_writes.lock().add_seen(LimitWrite {
            cgroup,
            file,
            text: text.trim_end().to_owned(),
            writer,
        });
    }

    /// The pod that a cgroup belongs to.
    fn pod_of(&self, path: &str) -> Option<PodRef> {
        pod_ref(&self.names.name(&Arc::new(identify(path))))
    }

    /// Takes the writes to limits of cgroups since the last call, oldest first; `None` where they are not
    /// seen.
    pub fn take_limit_writes(&self) -> Option<Vec<LimitWrite>> {
        self.facts.sees_limit_writes.then(|| self.limit_writes.lock().take())
    }

    /// Writes it into the journal, with the pod that its cgroup belongs to.
    fn record(&self, happened: Happened) {
        let pod = happened.identity.as_ref().and_then(|identity| pod_ref(&self.names.name(identity)));
        self.journal.append(happened.time, &*happened.path, pod, happened.detail);
    }

    /// Walks the tree and records what the kernel programs' records missed. `after_loss`: records of cgroup
    /// life were lost. Returns true when another walk is needed soon.
    pub fn reconcile(&self, after_loss: bool) -> bool {
        let hierarchies: Vec<&Hierarchy> = tree::hierarchies(&self.facts.layout, &self.facts.spaces);
        let mut suspects = self.suspects.lock();
        let walked = {
            let mut sampler = self.sampler.lock();
            let pool = sampler.kernel.as_mut().map(|k| &mut k.pool);
            let again = after_loss || !suspects.is_empty();
            tree::reconcile(&hierarchies, &self.registry, pool, MonotonicClock::now(), again, &suspects)
        };
        self.count_untracked(walked.untracked);
        for happened in walked.happened {
            self.record(happened);
        }
        *suspects = walked.suspects;
        !suspects.is_empty()
    }

    /// Records how many events found the ring full since the last call. Returns true when creations or
    /// removals of cgroups are among them.
    pub fn record_lost(&self) -> bool {
        let Some(cells) = &self.cells else { return false };
        let mut reported = self.reported_lost.lock();
        let mut tree_changed = false;
        for kind in Kind::ALL {
            let lost = cells.lost(kind);
            let before = std::mem::replace(&mut reported[kind as usize], lost);
            if let Some(event_type) = EventType::of(kind).filter(|_| lost > before) {
                let lost_type = event_type.name().to_owned();
                let detail = Detail::Lost { lost_type, count: lost - before };
                self.journal.append(Timestamp::now(), "", None, detail);
                tree_changed |= matches!(kind, Kind::Created | Kind::Removed);
            }
        }
        tree_changed
    }

    /// Reads every cgroup without making a snapshot, so that the last figures of one that is removed are
    /// known.
    pub fn remember(&self) {
        self.sampler.lock().remember(&self.registry, &self.names);
    }

    /// Frees the last reading once it is too old to be shared: it holds figures of every cgroup.
    pub fn drop_old_reading(&self) {
        self.latest.lock().take_if(|(when, _)| when.elapsed() >= SHARE);
    }

    /// Reads everything now, or returns a reading that was made within the last 20 ms.
    pub fn sample(&self) -> Arc<Snapshot> {
        let mut sampler = self.sampler.lock();
        // A caller that waited here for another's reading takes that one.
        if let Some((when, snapshot)) = &*self.latest.lock()
            && when.elapsed() < SHARE
        {
            return snapshot.clone();
        }
        let snapshot = Arc::new(sampler.sample(&self.registry, &self.names));
        *self.latest.lock() = Some((Instant::now(), snapshot.clone()));
        self.upkeep.ask();
        snapshot
    }

    /// Events received and lost so far, by type.
    pub fn event_counts(&self) -> Vec<EventCounts> {
        let lost = |kind: Kind| self.cells.as_ref().map_or(0, |cells| cells.lost(kind));
        let counts = |event_type: EventType| {
            let kinds = Kind::ALL.into_iter().filter(|kind| EventType::of(*kind) == Some(event_type));
            EventCounts { event_type, seen: self.received.of(event_type), lost: kinds.map(lost).sum() }
        };
        EventType::ALL.into_iter().map(counts).collect()
    }

    /// What each kernel program has cost while it was measured, and for how long that was.
    pub fn program_costs(&self) -> (Vec<ProgramCost>, Duration) {
        self.kernel.lock().as_ref().map(|kernel| (kernel.costs(), kernel.measured())).unwrap_or_default()
    }

    /// How many cgroups have counters, and what is missed by those that have none.
    pub fn coverage(&self) -> Coverage {
        // One lock at a time: a thread that holds the sampler waits for the registry.
        let tracked = self.registry.lock().counted() as u64;
        let untracked_counts = self.sampler.lock().untracked_counts();
        let refused = self.cells.as_ref().map_or(0, |cells| cells.untracked());
        let untracked = self.untracked.load(Ordering::Relaxed) + refused;
        Coverage { tracked, untracked, untracked_counts }
    }

    /// Bytes of the eBPF arrays that are mapped into this process.
    pub fn mapped_bytes(&self) -> u64 {
        self.cells.as_ref().map_or(0, |cells| cells.mapped_bytes())
    }
}

/// Pod and container that an event's cgroup belongs to.
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
