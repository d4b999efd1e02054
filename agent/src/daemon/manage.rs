//! Mode manage: the agent keeps the cgroups of the pods that the manifests name and, with a container
//! runtime, runs them.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use tracing::warn;

use super::context::Context;
use super::devices;
use super::error::DaemonError;
use super::eviction::{self, Eviction, ManagedPods};
use super::node_parts::NodeParts;
use super::pod_reports::PodReports;
use super::process;
use super::resource_managers;
use super::shutdown::Shutdown;
use super::{gc, kubernetes, throttle};
use nodewarden_admission::Explain;
use nodewarden_config::{Config, Endpoint};
use nodewarden_cri::Client;
use nodewarden_eviction::History;
use nodewarden_eviction::Wakeups;
use nodewarden_eviction::engine::RestoredState;
use nodewarden_eviction::metrics;
use nodewarden_exclusive_cpus::{self as exclusive_cpus, ExclusiveCpuWatch};
use nodewarden_gc::Holds;
use nodewarden_hierarchy::{self as hierarchy, HasVolumes, HierarchyError, Namer, Prepared};
use nodewarden_kube::source::ApiSource;
use nodewarden_lifecycle::{self as lifecycle, Adoption, Recovered};
use nodewarden_model::{Detail, Identity, Topic};
use nodewarden_pods::log_rotation::LogRotation;
use nodewarden_pods::probes::{Handlers, Probes};
use nodewarden_pods::registry::Providers;
use nodewarden_pods::source::{Desired, Following, PodSource, PodSources};
use nodewarden_pods::volume;

/// Starts what runs the node's pods. The pods of an earlier agent are adopted: the agent is ready when each
/// has been looked at. Must be called inside a tokio runtime.
///
/// # Errors
/// Something that mode manage cannot do without is missing.
pub fn start(context: Context<'_>, wakeups: Wakeups) -> Result<(NodeParts, Option<Adoption>), DaemonError> {
    match &context.config.runtime_endpoint {
        Some(endpoint) => {
            let (node, adoption) = run_pods(context, endpoint, wakeups)?;
            Ok((node, Some(adoption)))
        }
        None => {
            warn!("nodewarden.runtimeEndpoint is not set: pods get their cgroups and no containers");
            Ok((keep_cgroups(context)?, None))
        }
    }
}

/// Without a container runtime: cgroups for exactly the pods that the manifests name.
fn keep_cgroups(context: Context<'_>) -> Result<NodeParts, DaemonError> {
    let prepared = prepare(context, Box::new(|_| false))?;
    let mut sources = PodSources::new(hierarchy::sources(context.config));
    let hierarchy = prepared.keep(sources.snapshot().into())?;
    let sink = hierarchy.handle();
    let sources = Some(follow(sources, move |desired| sink.send(desired.into()))?);
    let throttle = throttle::start(context, &hierarchy)?;
    let shutdown = watch::channel(false).1;
    let kubernetes = kubernetes::keep_node(context, kubernetes::Sources::of(&hierarchy, shutdown), None)?;
    Ok(NodeParts { kubernetes, throttle, sources, hierarchy: Some(hierarchy), ..NodeParts::default() })
}

/// With a container runtime: everything that a pod's life needs, each part after those that it uses.
fn run_pods(
    context: Context<'_>,
    endpoint: &Endpoint,
    wakeups: Wakeups,
) -> Result<(NodeParts, Adoption), DaemonError> {
    let (config, begun) = (context.config, Timestamp::now());
    let pods_dir = config.pods_dir();
    process::create_state_dir(&pods_dir)?;
    let prepared = prepare(context, Box::new(move |uid| volume::has_volumes(&pods_dir.join(uid))))?;
    let (found, sources) = find_pods(context)?;
    let (facts, kubepods) = (prepared.facts, prepared.kubepods.clone());
    let devices::Started { mut devices, guards, health } = devices::start(context, &kubepods);
    let hierarchy = prepared.keep(found.keep())?;
    let managers = resource_managers::start(context, &hierarchy.capacity().borrow().clone(), found.uids())?;
    devices.serve_pod_resources(context, &managers);
    let probes = start_probes(context, endpoint)?;
    let holds = Holds::default();
    let restored = RestoredState::open(&config.state_dir);
    let (pressure, conditions) = watch::channel(restored.pressure());
    let shutting_down = watch::Sender::new(false);
    let node_sources = kubernetes::Sources {
        devices: Some(devices.manager.clone()),
        pressure: conditions.clone(),
        ..kubernetes::Sources::of(&hierarchy, shutting_down.subscribe())
    };
    let history = eviction::history(context);
    let deps = lifecycle::Deps {
        list: context.shared_list(endpoint),
        facts,
        capacity: hierarchy.capacity(),
        layout: context.observer.facts.layout.clone(),
        journal: context.journal.clone(),
        places: hierarchy.pod_cgroups(),
        sink: hierarchy.handle(),
        status: context.pods.clone(),
        devices: devices.manager.clone(),
        managers: managers.clone(),
        guards,
        probes: probes.clone(),
        holds: holds.clone(),
        pressure: conditions,
        credential_providers: credential_providers(config)?,
        objects: context.kubernetes.map(|connection| {
            let _runtime = context.runtime.enter();
            nodewarden_kube::objects::start(connection.clone(), config.pods.change_detection)
        }),
        health,
        explain: record_preemptions(history.clone()),
        ends_reported: context.observer.facts.is_on(Topic::Process),
        removals_reported: context.observer.facts.is_on(Topic::CgroupLifecycle),
    };
    let (pods, adoption) = lifecycle::start(config, endpoint, found, deps);
    let gc = gc::start(context, endpoint, holds);
    let evict = pods.clone();
    let eviction = Eviction::start(
        context,
        eviction::Setup {
            kubepods,
            subjects: Box::new(ManagedPods::new(context, hierarchy.pod_cgroups(), &adoption)),
            collector: Some(gc.clone()),
            settings: context.config.eviction.clone(),
            evict: Some(Box::new(move |uid, eviction| evict.evict(uid, eviction))),
            beside: None,
            pressure,
            history,
            restored,
            wakeups,
        },
    );
    let log_rotation =
        LogRotation::start(context.runtime, endpoint, &config.pods, context.pods.clone(), config.pods_dir());
    let handed = pods.clone();
    let sources = Some(follow(sources, move |desired| handed.desire(desired))?);
    let throttle = throttle::start(context, &hierarchy)?;
    let owners = resource_managers::follow_owners(context, &managers, hierarchy.pod_cgroups());
    let exclusive_cpus = ExclusiveCpuWatch::start(
        exclusive_cpus::Deps {
            observer: context.observer.clone(),
            journal: context.journal.clone(),
            pods: context.pods.clone(),
            bounds: config.exclusive_cpus,
            runtime: context.runtime.clone(),
        },
        owners,
    )
    .map_err(|source| DaemonError::Start { what: "thread of exclusive CPUs", source })?;
    let reports = PodReports::start(context, begun);
    let written = reports.as_ref().map(PodReports::written);
    let node = NodeParts {
        augment: None,
        reports,
        shutdown: Shutdown::start(context, pods.clone(), written, shutting_down),
        kubernetes: kubernetes::keep_node(context, node_sources, Some(pods.admission().clone()))?,
        throttle,
        sources,
        log_rotation,
        exclusive_cpus: Some(exclusive_cpus),
        eviction,
        gc: Some(gc),
        pods: Some(pods),
        probes: Some(probes),
        hierarchy: Some(hierarchy),
        devices: Some(devices),
        managers: Some(managers),
    };
    Ok((node, adoption))
}

/// Checks what the hierarchy needs, and creates the cgroup above all pods.
fn prepare(context: Context<'_>, has_volumes: HasVolumes) -> Result<Prepared, HierarchyError> {
    let Context { config, runtime, journal, observer, .. } = context;
    let named = observer.clone();
    let namer: Namer = Box::new(move |identity: &Arc<Identity>| named.names.name(identity));
    hierarchy::prepare(config, &observer.facts.layout, journal, runtime, namer, has_volumes)
}

/// The pods that an earlier agent left and those that the sources want, and the sources. Records that are
/// damaged are reported in the log and in the journal.
fn find_pods(context: Context<'_>) -> Result<(Recovered, PodSources), DaemonError> {
    let (found, problems) = lifecycle::find(context.config).map_err(DaemonError::Records)?;
    let mut sources = PodSources::new(sources(context));
    sources.set_running(found.origins());
    let desired = sources.snapshot();
    for problem in problems {
        warn!("{problem}");
        let detail = Detail::Agent { reason: "RecordDamaged".into(), message: problem };
        context.journal.append(Timestamp::now(), "", None, detail);
    }
    Ok((found.with(desired), sources))
}

/// The node's own pods, and those of the API server if there is one.
fn sources(context: Context<'_>) -> Vec<Box<dyn PodSource>> {
    let mut sources = hierarchy::sources(context.config);
    if let Some(connection) = context.kubernetes {
        let (status, known) = (context.pods.clone(), context.known_pods.clone());
        let journal = context.journal.clone();
        sources.push(Box::new(ApiSource::new(connection.clone(), status, known, journal)));
    }
    sources
}

/// The plugins that have credentials for images; both settings or none.
fn credential_providers(config: &Config) -> Result<Option<Providers>, DaemonError> {
    let settings = &config.kubernetes;
    match (&settings.credential_provider_config, &settings.credential_provider_bin_dir) {
        (Some(file), Some(programs)) => Ok(Some(Providers::open(file, programs)?)),
        _ => Ok(None),
    }
}

/// Starts the engine that runs probes.
fn start_probes(context: Context<'_>, endpoint: &Endpoint) -> Result<Probes, DaemonError> {
    // A connection of its own: a command that takes long holds up no other call.
    let client = Client::new(endpoint).with_request_limit(context.config.pods.runtime_request_timeout);
    Probes::start(&context.config.probes, Arc::new(Handlers::new(client)))
        .map_err(|source| DaemonError::Start { what: "thread of probes", source })
}

/// Counts preemptions and adds them to the decisions that `nodewarden explain` shows.
fn record_preemptions(history: History) -> Explain {
    Explain::new(move |decision| {
        let missing = decision.signals.first().map(|signal| signal.signal.clone()).unwrap_or_default();
        let victims = decision.candidates.iter().filter(|candidate| candidate.chosen);
        victims.for_each(|_| metrics::record_preemption(&missing));
        history.add(decision);
    })
}

/// Calls `to` whenever the sources want something else, until the result is dropped.
fn follow(
    sources: PodSources,
    to: impl FnMut(Desired) + Send + 'static,
) -> Result<Following, HierarchyError> {
    sources.follow(Box::new(to)).map_err(|source| HierarchyError::Start { what: "pod sources", source })
}
