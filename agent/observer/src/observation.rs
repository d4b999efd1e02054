//! Observation of cgroups: the kernel programs, the registry of cgroups, and the events that the programs
//! report.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use tracing::{info, warn};

use crate::counters::TopicsOn;
use crate::files::Files;
use crate::kernel_side::KernelSide;
use crate::names::Names;
use crate::observer::{Facts, Observer, OnPressure};
use crate::registry::Registry;
use crate::sampler::Sampler;
use crate::tree;
use crate::usages::Usages;
use crate::write_notices::WriteNotices;
use nodewarden_config::{Config, Enforcement, Mode};
use nodewarden_machine::cgroup::{CgroupError, Layout};
use nodewarden_machine::ebpf::{
    Kernel, KernelError, LoadOptions, Loaded, MonotonicClock, Requested, RingReader, Spaces,
    attached_at_start,
};
use nodewarden_model::{HookState, Topic, TopicStatus};
use nodewarden_storage::journal::Journal;

/// Cgroups cannot be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObservationError {
    /// There are no usable cgroup hierarchies.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The records of the kernel programs cannot be read.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// What observes cgroups. Dropping it ends the reading of events; the kernel programs are detached with the
/// last clone of the observer.
pub struct Observation {
    _events: Option<RingReader>,
    _notices: Option<WriteNotices>,
    /// What is observed.
    pub observer: Arc<Observer>,
}

impl Observation {
    /// Detects the cgroup layout and loads the kernel programs, in the order that leaves no cgroup unseen:
    /// first the programs that give new cgroups their slots, then the walk for those that were there, then
    /// the programs that count. Events of memory pressure also go to `on_pressure`. Must be called inside a
    /// tokio runtime.
    ///
    /// # Errors
    /// There are no usable cgroup hierarchies, or a thread cannot be started. Without eBPF only the kernel's
    /// files are read, which the log says.
    pub fn start(
        config: &Config,
        journal: &Journal,
        on_pressure: OnPressure,
    ) -> Result<Self, ObservationError> {
        let layout = Layout::detect()?;
        let spaces = tree::spaces(&layout);
        info!(layout = %layout.kind(), controllers = layout.describe_controllers().join(", "), "cgroups");
        let (mut loaded, topics_off) = load(config, &layout, &spaces);
        let registry = Arc::new(Mutex::new(Registry::default()));
        let hierarchies = tree::hierarchies(&layout, &spaces);
        let pool = loaded.as_mut().map(|loaded| &mut loaded.pool);
        let walked =
            tree::reconcile(&hierarchies, &registry, pool, MonotonicClock::now(), false, &HashSet::new());
        let mut usages = None;
        if let Some(loaded) = &mut loaded {
            usages = Usages::prepare(&mut loaded.kernel, &layout, &spaces);
            loaded.kernel.attach();
        }
        let topics = loaded.as_ref().map_or(topics_off, |loaded| loaded.kernel.topics());
        let mut facts = facts(config, &layout, &spaces, topics);
        let to = Arc::new(OnceLock::<Arc<Observer>>::new());
        let notices = write_notices(&mut facts, to.clone());
        facts.sees_limit_writes = facts.is_on(Topic::LimitWrites) || notices.is_some();
        let names = Names::new(config.runtime_endpoint.as_ref(), config.pods.runtime_request_timeout);
        let files = Files::new(layout, config.node_name.clone(), usages);
        let (kernel, counters, ring) = match loaded {
            Some(Loaded { kernel, cells, pool, ring, neighbours }) => {
                let on = topics_on(&facts.topics);
                (Some(kernel), Some(KernelSide { cells, pool, spaces, on, neighbours }), Some(ring))
            }
            None => (None, None, None),
        };
        let sampler = Sampler::new(counters, files);
        let observer = Observer::new(facts, registry, sampler, kernel, journal.clone(), names, on_pressure);
        let observer = Arc::new(observer);
        observer.count_untracked(walked.untracked);
        let _first = to.set(observer.clone());
        let to = observer.clone();
        let reader = ring.map(|ring| RingReader::start(ring, move |record| to.on_record(&record)));
        Ok(Self { _events: reader.transpose()?, _notices: notices, observer })
    }
}

/// The kernel programs, or every topic as off where they cannot be loaded.
fn load(config: &Config, layout: &Layout, spaces: &Spaces) -> (Option<Loaded>, Vec<TopicStatus>) {
    let options = LoadOptions {
        spaces: spaces.clone(),
        max_cgroups: config.max_cgroups,
        ring_bytes: config.ring_bytes,
        unified: layout.unified().map(|hierarchy| hierarchy.mount.clone()),
        devices: match config.mode {
            Mode::Observe => false,
            Mode::Augment => config.augment.devices != Enforcement::Off,
            Mode::Manage => config.devices.guards(),
        },
        requested: requested(config),
        empty_programs: config.bench_empty_programs,
        verbose: tracing::enabled!(tracing::Level::DEBUG),
    };
    match Kernel::load(options) {
        Ok(loaded) => (Some(loaded), Vec::new()),
        Err(error) => {
            warn!(%error, "no eBPF here: only what the kernel's files show is observed");
            (None, all_off(config, &error))
        }
    }
}

/// Sees writes to limits by fanotify where the topic of them is off, whose reason says how that went. Writes
/// before `to` is set are not kept.
fn write_notices(facts: &mut Facts, to: Arc<OnceLock<Arc<Observer>>>) -> Option<WriteNotices> {
    let is_it = |own: &&mut TopicStatus| own.topic == Topic::LimitWrites && own.state == HookState::Off;
    let topic = facts.topics.iter_mut().find(is_it)?;
    let on_write = move |write| {
        if let Some(observer) = to.get() {
            observer.keep_seen(write);
        }
    };
    match WriteNotices::start(&facts.layout, on_write) {
        Ok(notices) => {
            info!("who writes limits of cgroups is seen by fanotify");
            topic.reason = format!("fanotify is used instead: {}", topic.reason);
            Some(notices)
        }
        Err(error) => {
            warn!("who writes limits of cgroups is not known: {error}, {}", topic.reason);
            topic.reason = format!("{}; fanotify: {error}", topic.reason);
            None
        }
    }
}

/// The topics that features of mode augment need: who wrote a changed limit, and who runs while a container
/// waits.
fn requested(config: &Config) -> Requested {
    let is_on = |feature| config.mode == Mode::Augment && feature != Enforcement::Off;
    Requested { limit_writes: is_on(config.augment.events), neighbours: is_on(config.augment.neighbours) }
}

fn facts(config: &Config, layout: &Layout, spaces: &Spaces, topics: Vec<TopicStatus>) -> Facts {
    let kernel_version = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
    Facts {
        mode: config.mode.name(),
        started: SystemTime::now(),
        kernel_version: kernel_version.unwrap_or_default(),
        capacity: config.max_cgroups.into(),
        topics,
        sees_limit_writes: false,
        spaces: spaces.clone(),
        layout: layout.clone(),
    }
}

/// Every topic off, for the same reason.
fn all_off(config: &Config, error: &KernelError) -> Vec<TopicStatus> {
    let off = |topic| TopicStatus { topic, state: HookState::Off, reason: error.to_string() };
    attached_at_start(requested(config)).map(off).collect()
}

/// Which topics count.
fn topics_on(topics: &[TopicStatus]) -> TopicsOn {
    let mut on = TopicsOn::default();
    for topic in topics {
        on[topic.topic as usize] = topic.state != HookState::Off;
    }
    on
}
