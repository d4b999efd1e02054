//! Mode manage put together: source, hierarchy and, with a runtime, the lifecycle of pods between them.

use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::watch;
use tracing::warn;

use super::error::WatchError;
use super::managed_pods::Managed;
use super::observer::Observer;
use super::{collecting, devices, evicting, rotating};
use nodewarden_admission::Explain;
use nodewarden_config::{Config, Enforcement};
use nodewarden_cri::Client;
use nodewarden_devices::Guards;
use nodewarden_devices::enforce::Enforcer;
use nodewarden_eviction::engine::Remembered;
use nodewarden_eviction::told;
use nodewarden_gc::Holds;
use nodewarden_hierarchy as manage;
use nodewarden_hierarchy::{Managing, Namer};
use nodewarden_lifecycle as lifecycle;
use nodewarden_lifecycle::Adoption;
use nodewarden_machine::node::gather::Sources;
use nodewarden_model::{Detail, Identity};
use nodewarden_pods::probes::{Handlers, Probes};
use nodewarden_pods::volume;
use nodewarden_storage::journal::Journal;

/// Starts what owns the node's pods; with a runtime, those of an earlier agent are looked at before anybody is told of
/// them.
///
/// # Errors
/// What it cannot do without is missing.
pub fn start(
    config: &Config,
    observer: &Arc<Observer>,
    journal: &Journal,
    runtime: &tokio::runtime::Handle,
) -> Result<(Managing, Option<Adoption>), WatchError> {
    let layout = &observer.facts.layout;
    let named = observer.clone();
    let namer: Namer = Box::new(move |identity: &Arc<Identity>| named.names.name(identity));
    let Some(endpoint) = &config.runtime_endpoint else {
        warn!("nodewarden.runtimeEndpoint is not set: pods get their cgroups and no containers");
        return Ok((manage::start(config, layout, journal, runtime, namer)?, None));
    };
    let homes = lifecycle::homes(config);
    let has_volumes = Box::new(move |uid: &str| volume::has_volumes(&homes.join(uid)));
    let prepared = manage::prepare(config, layout, journal, runtime, namer, has_volumes)?;
    let (found, problems) = lifecycle::find(config).map_err(WatchError::Records)?;
    let mut source = manage::source(config);
    let first = source.as_mut().map(|source| {
        source.stand(found.standing());
        source.first()
    });
    let found = found.with(first.unwrap_or_default());
    for problem in problems {
        warn!("{problem}");
        let detail = Detail::Agent { reason: "RecordDamaged".into(), message: problem };
        journal.append(Timestamp::now(), "", None, detail);
    }
    let facts = prepared.facts;
    let started = devices::start(config, observer, journal, runtime);
    let guards = guards(config, observer, &prepared.kubepods);
    let capacity = Sources::default().capacity(Some(&config.state_dir)).map_err(manage::ManageError::from)?;
    let kubepods = prepared.kubepods.clone();
    let keeper = prepared.keep(found.keep())?;
    let places = keeper.places();
    let probes = {
        let _inside = runtime.enter();
        // A connection of its own: commands that take their time hold up nobody's calls.
        let client = Client::new(endpoint).with_request_limit(config.pods.runtime_request_timeout);
        Probes::start(&config.probes, Arc::new(Handlers::new(client)))
    };
    let shown = probes.clone();
    observer.show_probes(move || shown.view());
    let holds = Holds::default();
    let remembered = Remembered::open(&config.state_dir);
    let (pressed, pressure) = watch::channel(remembered.pressure());
    let history = evicting::history(config, journal);
    let needs = lifecycle::Needs {
        facts,
        capacity,
        layout: layout.clone(),
        journal: journal.clone(),
        places: keeper.places(),
        sink: keeper.sink(),
        board: observer.board.clone(),
        devices: started.devices,
        guards,
        probes,
        holds: holds.clone(),
        pressure,
        health: started.health,
        explain: {
            let history = history.clone();
            Explain::new(move |decision| {
                let missing =
                    decision.signals.first().map(|signal| signal.signal.clone()).unwrap_or_default();
                let victims = decision.candidates.iter().filter(|candidate| candidate.chosen);
                victims.for_each(|_| told::preempted(&missing));
                history.add(decision);
            })
        },
    };
    let (lifecycle, adoption) = lifecycle::start(config, endpoint, found, needs);
    let collector = collecting::start(config, endpoint, observer, journal, holds);
    let evict = lifecycle.clone();
    let given = evicting::Given {
        kubepods,
        subjects: Box::new(Managed {
            board: observer.board.clone(),
            places,
            homes: lifecycle::homes(config),
            logs_dir: config.pods.logs_dir.clone(),
            adopted: adoption.is_over(),
        }),
        collector: Some(collector),
        evict: Some(Box::new(move |uid, eviction| evict.evict(uid, eviction))),
        pressure: pressed,
        history,
        remembered,
    };
    let evicting = evicting::start(config, observer, journal, given);
    let rotating = {
        let _inside = runtime.enter();
        let client = Client::new(endpoint).with_request_limit(config.pods.runtime_request_timeout);
        rotating::start(config, observer.board.clone(), client)
    };
    let watching = source.map(|source| {
        let watching = source.watch(Box::new(move |desired| lifecycle.desire(desired)));
        watching.map_err(|source| manage::ManageError::Start { what: "manifest thread", source })
    });
    Ok((
        Managing::new(watching.transpose()?, keeper).with_servers((started.servers, evicting, rotating)),
        Some(adoption),
    ))
}

/// What holds pods to their devices; nothing where nothing is to be enforced.
fn guards(config: &Config, observer: &Observer, kubepods: &str) -> Option<Guards> {
    let settings = &config.devices;
    if [settings.enforcement, settings.privileged_enforcement] == [Enforcement::Off; 2] {
        return None;
    }
    let mut kernel = observer.kernel.lock();
    let enforcer = Enforcer::start(kernel.as_mut(), &observer.facts.layout, kubepods);
    drop(kernel);
    observer.show_enforcer(enforcer.clone());
    Some(Guards::new(enforcer, settings))
}
