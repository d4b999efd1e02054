//! What runs between the start and the end of the agent, in which order it is started, and in which order it
//! is ended.

use std::time::Duration;

use jiff::Timestamp;
use tokio::runtime::{Handle, Runtime};
use tracing::info;

use super::context::Context;
use super::error::DaemonError;
use super::node_parts::NodeParts;
use super::privileges::Privileges;
use super::process::Signals;
use super::servers::{Endpoints, Servers};
use super::state::State;
use super::upkeep::Upkeep;
use super::watchdog::Watchdog;
use super::{augment, footprint, kubernetes, manage, observe, page_map, process};
use nodewarden_config::{Config, Mode};
use nodewarden_eviction::Wakeups;
use nodewarden_kube::KnownPods;
use nodewarden_kube::credentials::Renewal;
use nodewarden_kube::events::Events;
use nodewarden_model::{Detail, HookState};
use nodewarden_observer::Observation;
use nodewarden_pods::status::PodStatusCache;
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::parts::{self, Parts};

/// Runs the agent until SIGINT or SIGTERM.
///
/// # Errors
/// When something that the agent cannot do without is missing. What it can do without only turns off a
/// feature.
pub fn run(config: Config) -> Result<(), DaemonError> {
    // First, or what is counted before the first scrape is lost.
    nodewarden_metrics::recorder::handle();
    parts::keep_panic_texts();
    process::require_root()?;
    footprint::shape_heap();
    process::create_state_dir(&config.state_dir)?;
    process::unblock_signals()?;
    process::limit_open_files(config.node.max_open_files);
    process::write_no_core_files();
    let (runtime, http) = (process::server_threads()?, process::http_threads()?);
    let outcome = {
        let _in_runtime = runtime.enter();
        Signals::listen().and_then(|signals| {
            App::start(&config, runtime.handle(), http.handle())?.run_until_signal(&runtime, signals)
        })
    };
    // Blocking work may be at a file system that never answers.
    http.shutdown_timeout(END);
    runtime.shutdown_timeout(END);
    outcome
}

/// How long the other parts may take to end after one of them ended by itself.
const LAST: Duration = Duration::from_secs(20);

/// How long the end of the agent waits for blocking work: records are on disk by then.
const END: Duration = Duration::from_secs(5);

/// Everything that runs. The fields stand in the order in which they end, the reverse of the order in which
/// they are started; when the start fails half-way, what was started so far ends in this order too.
struct App {
    watchdog: Watchdog,
    servers: Servers,
    upkeep: Upkeep,
    node: NodeParts,
    credentials: Option<Renewal>,
    observation: Observation,
    journal: Journal,
}

impl App {
    fn start(config: &Config, runtime: &Handle, http: &Handle) -> Result<Self, DaemonError> {
        // First, so that a second agent is refused before it does anything.
        let endpoints = Endpoints::claim(config, http)?;
        let journal = Journal::open(&config.journal_dir(), config.journal)?;
        // Whatever the mode is: an earlier agent in mode augment may have been killed.
        let ledger = augment::put_back(config, &journal)?;
        for own in &config.ignored {
            info!(key = own.key, "this key of the kubelet has no effect here: {}", own.reason);
        }
        // Kernel programs report memory events before eviction is started.
        let wakeups = Wakeups::default();
        let waker = wakeups.waker();
        let observation = Observation::start(config, &journal, Box::new(move |what| waker.wake(what)))?;
        record_start(config, &observation, &journal);
        let (observer, pods) = (&observation.observer, PodStatusCache::default());
        let (connection, credentials) = kubernetes::connect(config, runtime)?.unzip();
        let kubernetes = connection.as_ref();
        let (known_pods, events) = (&KnownPods::default(), &Events::default());
        let context = Context {
            config,
            runtime,
            http,
            journal: &journal,
            observer,
            pods: &pods,
            kubernetes,
            known_pods,
            events,
        };
        let (node, adoption) = match (config.mode, ledger) {
            (Mode::Manage, _) => manage::start(context, wakeups)?,
            (Mode::Augment, Some(ledger)) => (augment::start(context, wakeups, ledger)?, None),
            _ => (observe::start(context, wakeups, observe::Evicting::shown(context)), None),
        };
        let upkeep = Upkeep::start(config, observer)?;
        footprint::trim();
        page_map::map_page_by_page();
        // Everything is open that needs more. What is started from here on has no more than this thread.
        let privileges = Privileges::settle(config, observer);
        let state = State::new(context, &node, privileges);
        let nodes = node.kubernetes.as_ref().map(kubernetes::NodeHandle::nodes);
        let servers = Servers::start(context, endpoints, state, adoption, nodes)?;
        info!(socket = %config.socket.display(), http = %config.http_address, "watching");
        let watchdog = Watchdog::start(Parts::of_process())?;
        footprint::trim();
        Ok(Self { watchdog, servers, upkeep, node, credentials, observation, journal })
    }

    /// Serves until a signal arrives or a part ends by itself, then ends everything.
    fn run_until_signal(self, runtime: &Runtime, signals: Signals) -> Result<(), DaemonError> {
        let Self { watchdog, servers, upkeep, node, credentials, observation, journal } = self;
        let outcome = runtime.block_on(servers.run_until_signal(signals, &journal));
        drop(watchdog);
        if let Err(error) = &outcome {
            // The other parts are ended in order if they can be: one of them may wait for the one that is
            // missing.
            process::end_at_last(LAST, error.to_string());
        }
        drop(upkeep);
        drop(node);
        drop(credentials);
        drop(observation);
        journal.close();
        outcome
    }
}

/// Writes into the journal that the agent was started, and which topics it cannot observe.
fn record_start(config: &Config, observation: &Observation, journal: &Journal) {
    let record = |reason: &str, message| {
        let detail = Detail::Agent { reason: reason.into(), message };
        journal.append(Timestamp::now(), "", None, detail);
    };
    record("Started", format!("nodewarden {} in {} mode", nodewarden_model::version(), config.mode.name()));
    let topics = &observation.observer.facts.topics;
    for topic in topics.iter().filter(|topic| topic.state != HookState::On) {
        record("FeatureOff", format!("{} is {}: {}", topic.topic.name(), topic.state.name(), topic.reason));
    }
}
