//! Start and end of the daemon.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use nix::sys::signal::{SigSet, Signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::error::WatchError;
use super::names::Names;
use super::observer::{Facts, Observer};
use super::{collecting, evicting, memory, upkeep};
use nodewarden_api::{grpc, http};
use nodewarden_config::{Config, Mode};
use nodewarden_cri::Client as RuntimeClient;
use nodewarden_gc::Holds;
use nodewarden_machine::cgroup::Layout;
use nodewarden_machine::ebpf::{Kernel, KernelError, LoadOptions, Loaded, RingReader};
use nodewarden_machine::unix_socket::Socket;
use nodewarden_model::{Detail, HookState, Topic, TopicStatus};
use nodewarden_observer::counters::TopicsOn;
use nodewarden_observer::files::Files;
use nodewarden_observer::registry::Registry;
use nodewarden_observer::sampler::{KernelSide, Sampler};
use nodewarden_observer::tree;
use nodewarden_storage::journal::Journal;

/// How long the agent is not ready for want of a look at the pods of an earlier one.
const ADOPTION: Duration = Duration::from_secs(10);
/// Threads that serve. More would only add to the agent's footprint.
const SERVERS: usize = 2;
/// Unoptimised, a pod's turn takes more than half of the usual two MiB. Only what is used is had.
const STACK: usize = 4 << 20;

/// Runs the agent until SIGINT or SIGTERM.
///
/// # Errors
/// When something the agent cannot do without is missing. What it can do without only turns off a feature.
pub fn run(config: Config) -> Result<(), WatchError> {
    // First of all, or what is counted before the first scrape is lost.
    nodewarden_metrics::recorder::handle();
    let uid = nix::unistd::geteuid();
    if !uid.is_root() {
        return Err(WatchError::NotRoot { uid: uid.as_raw() });
    }
    memory::one_heap();
    let start = |what| move |source| WatchError::Start { what, source };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.state_dir)
        .map_err(|source| WatchError::StateDir { path: config.state_dir.clone(), source })?;
    // Whoever started the agent may have blocked the signals that end it; threads inherit that.
    let ends = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    ends.thread_unblock().map_err(|e| WatchError::Start { what: "signal handler", source: e.into() })?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(SERVERS)
        .max_blocking_threads(4)
        .thread_stack_size(STACK)
        .thread_name("serve")
        .on_thread_start(hurry)
        .enable_all()
        .build()
        .map_err(start("server threads"))?;
    let _in_runtime = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(start("signal handler"))?;
    let mut terminate = signal(SignalKind::terminate()).map_err(start("signal handler"))?;

    // Taken first, so that a second agent is refused before it does anything.
    let socket = Socket::claim(&config.socket).map_err(grpc::GrpcError::from)?;
    let exposure = if config.http_allow_remote { http::Exposure::Network } else { http::Exposure::Loopback };
    let listener = runtime.block_on(http::bind(config.http_address, exposure))?;
    let journal = Journal::open(&config.journal_dir(), config.journal)?;
    let note = |reason: &str, message: String| {
        let detail = Detail::Agent { reason: reason.into(), message };
        journal.append(Timestamp::now(), "", None, detail);
    };
    for key in &config.ignored {
        info!(key, "this kubelet setting has no effect here");
    }

    let watching = begin(&config, &journal)?;
    let observer = watching.observer.clone();
    note("Started", format!("nodewarden {} in {} mode", nodewarden_model::version(), config.mode.name()));
    for topic in observer.facts.topics.iter().filter(|t| t.state != HookState::On) {
        note("FeatureOff", format!("{} is {}: {}", topic.topic.name(), topic.state.name(), topic.reason));
    }
    let (managing, adoption, evicting) = match config.mode {
        Mode::Observe => {
            let collector = config
                .runtime_endpoint
                .as_ref()
                .map(|endpoint| collecting::start(&config, endpoint, &observer, &journal, Holds::default()));
            let evicting = evicting::seen(&config, &observer, &journal, collector);
            (None, None, evicting)
        }
        Mode::Manage => {
            let (managing, adoption) =
                super::managing::start(&config, &observer, &journal, runtime.handle())?;
            let status = managing.keeper.status();
            observer.show_hierarchy(move || status.lock().clone());
            let feedback = super::squeezing::start(&config, &observer, &journal, &managing.keeper)?;
            (Some(managing.with_feedback(feedback)), adoption, None)
        }
    };
    let (stop_upkeep, upkeep_stopped) = mpsc::channel::<()>();
    let upkeep = {
        let observer = observer.clone();
        let pace = upkeep::Pace {
            sample: config.sample,
            retention: config.retention,
            program_stats: config.program_stats,
        };
        thread::Builder::new()
            .name("upkeep".into())
            .spawn(move || upkeep::run(&observer, &pace, &upkeep_stopped))
            .map_err(start("upkeep thread"))?
    };

    let ready = Arc::new(AtomicBool::new(adoption.is_none()));
    if let Some(adoption) = adoption {
        let ready = ready.clone();
        runtime.spawn(async move {
            adoption.done(ADOPTION).await;
            ready.store(true, Ordering::Relaxed);
        });
    }
    let (stop, stopping) = watch::channel(false);
    let stopped = |mut stopping: watch::Receiver<bool>| async move {
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    let sources = grpc::streams::Sources {
        runtime: config.runtime_endpoint.as_ref().map(|endpoint| {
            RuntimeClient::new(endpoint).with_request_limit(config.pods.runtime_request_timeout)
        }),
        logs_dir: config.pods.logs_dir.clone(),
    };
    let ending = stopped(stopping.clone());
    let grpc = runtime.spawn(grpc::serve_on(socket, observer.clone(), journal.clone(), sources, ending));
    let http =
        runtime.spawn(http::serve(listener, observer.clone(), ready.clone(), stopped(stopping.clone())));
    info!(socket = %config.socket.display(), http = %config.http_address, "watching");
    memory::trim();
    memory::map_what_runs();

    let outcome = runtime.block_on(async {
        let (mut grpc, mut http) = (grpc, http);
        let early = tokio::select! {
            _ = interrupt.recv() => { info!("interrupted"); None }
            _ = terminate.recv() => { info!("terminated"); None }
            ended = &mut grpc => Some(ended.map(|r| r.map_err(WatchError::from))),
            ended = &mut http => Some(ended.map(|r| r.map_err(WatchError::Http))),
        };
        ready.store(false, Ordering::Relaxed);
        note("Stopping", String::from("told to stop"));
        stop.send_replace(true);
        match early {
            Some(Ok(result)) => result,
            Some(Err(panic)) => {
                error!(%panic, "a server died");
                Ok(())
            }
            None => {
                let grpc = grpc.await.map_or(Ok(()), |r| r.map_err(WatchError::from));
                let http = http.await.map_or(Ok(()), |r| r.map_err(WatchError::Http));
                grpc.and(http)
            }
        }
    });
    drop(evicting);
    drop(managing);
    drop(stop_upkeep);
    let _ = upkeep.join();
    drop(watching);
    journal.close();
    outcome
}

/// What watches; dropping it detaches all.
struct Watching {
    observer: Arc<Observer>,
    _ring: Option<RingReader>,
}

/// Detects, loads, walks and attaches, in the order that leaves no cgroup unseen: first the programs that give new
/// cgroups their slots, then the walk for those that were there, then the programs that count.
fn begin(config: &Config, journal: &Journal) -> Result<Watching, WatchError> {
    let layout = Layout::detect()?;
    let spaces = tree::spaces(&layout);
    info!(layout = %layout.kind(), controllers = layout.describe_controllers().join(", "), "cgroups");
    let options = LoadOptions {
        spaces: spaces.clone(),
        max_cgroups: config.max_cgroups,
        ring_bytes: config.ring_bytes,
        unified: layout.unified().map(|h| h.mount.clone()),
        devices: config.mode == Mode::Manage && config.devices.guards(),
        empty_programs: config.bench_empty_programs,
        verbose: tracing::enabled!(tracing::Level::DEBUG),
    };
    let (mut loaded, topics_off) = match Kernel::load(options) {
        Ok(loaded) => (Some(loaded), Vec::new()),
        Err(error) => {
            warn!(%error, "no eBPF here: only what the kernel's files tell will be seen");
            (None, all_off(&error))
        }
    };
    let registry = Arc::new(Mutex::new(Registry::default()));
    let hierarchies = tree::hierarchies(&layout, &spaces);
    let pool = loaded.as_mut().map(|l| &mut l.pool);
    let walked = tree::reconcile(&hierarchies, &registry, pool, Timestamp::now(), false, &HashSet::new());
    if let Some(loaded) = &mut loaded {
        loaded.kernel.attach();
    }
    let topics = loaded.as_ref().map_or(topics_off, |l| l.kernel.topics());
    let facts = Facts {
        mode: config.mode.name(),
        started: SystemTime::now(),
        kernel_version: nix::sys::utsname::uname()
            .map(|u| u.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        capacity: config.max_cgroups.into(),
        topics,
        spaces: spaces.clone(),
        layout: layout.clone(),
    };
    let names = Names::new(config.runtime_endpoint.as_ref());
    let files = Files::new(layout, config.node_name.clone());
    let (kernel, side, ring) = match loaded {
        Some(Loaded { kernel, cells, pool, ring }) => {
            let on = topics_on(&facts.topics);
            (Some(kernel), Some(KernelSide { cells, pool, spaces, on }), Some(ring))
        }
        None => (None, None, None),
    };
    let cells = side.as_ref().map(|s| s.cells.clone());
    let sampler = Sampler::new(side, files);
    let observer = Arc::new(Observer::new(facts, registry, sampler, kernel, cells, journal.clone(), names));
    observer.count_untracked(walked.untracked);
    let ring = match ring {
        Some(ring) => {
            let to = observer.clone();
            Some(RingReader::start(ring, move |record| to.on_record(&record))?)
        }
        None => None,
    };
    Ok(Watching { observer, _ring: ring })
}

/// Every topic off for the one reason.
fn all_off(error: &KernelError) -> Vec<TopicStatus> {
    let off = |topic| TopicStatus { topic, state: HookState::Off, reason: error.to_string() };
    Topic::ALL.into_iter().filter(|topic| *topic != Topic::Device).map(off).collect()
}

/// Which topics count at all.
fn topics_on(topics: &[TopicStatus]) -> TopicsOn {
    let mut on = TopicsOn::default();
    for topic in topics {
        on[topic.topic as usize] = topic.state != HookState::Off;
    }
    on
}

/// Lets the serving threads run before batch work: they sleep nearly always, and an event should reach its
/// reader at once. They are the first threads that the runtime starts; those that read and encode come later and are
/// in no hurry.
fn hurry() {
    static STARTED: AtomicUsize = AtomicUsize::new(0);
    if STARTED.fetch_add(1, Ordering::Relaxed) >= SERVERS {
        return;
    }
    if let Err(error) = nodewarden_machine::ebpf::raise_priority() {
        warn!(%error, "cannot raise the serving threads' priority: events may come late under full load");
    }
}
