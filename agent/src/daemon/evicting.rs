//! Eviction put together: with the pods that this agent runs, or in mode observe with those that are seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::watch;
use tracing::warn;

use super::observer::Observer;
use nodewarden_config::Config;
use nodewarden_cri::Client;
use nodewarden_eviction::Pressure;
use nodewarden_eviction::engine::{Engine, Evict, Needs, Remembered, Running, Subjects};
use nodewarden_eviction::gather::Subject;
use nodewarden_eviction::history::History;
use nodewarden_gc::Collector;
use nodewarden_manifest::Pod;
use nodewarden_model::{Detail, Identity};
use nodewarden_qos::Levels;
use nodewarden_storage::journal::Journal;

/// What differs between the modes.
pub struct Given {
    pub kubepods: String,
    pub subjects: Box<dyn Subjects>,
    pub collector: Option<Collector>,
    pub evict: Option<Evict>,
    pub pressure: watch::Sender<Pressure>,
    pub history: History,
    pub remembered: Remembered,
}

/// The decisions of earlier agents.
pub fn history(config: &Config, journal: &Journal) -> History {
    let (history, problem) = History::open(&config.state_dir);
    if let Some(problem) = problem {
        warn!("{problem}");
        let detail = Detail::Agent { reason: "RecordDamaged".into(), message: problem.to_string() };
        journal.append(Timestamp::now(), "", None, detail);
    }
    history
}

/// Starts it and has it shown; none, with the reason in the journal, where the node cannot be read. Must be called inside
/// a tokio runtime.
pub fn start(config: &Config, observer: &Observer, journal: &Journal, given: Given) -> Option<Running> {
    let runtime = config.runtime_endpoint.as_ref().map(Client::new);
    let needs = Needs {
        settings: config.eviction.clone(),
        layout: observer.facts.layout.clone(),
        kubepods: given.kubepods,
        subjects: given.subjects,
        collector: given.collector,
        runtime,
        evict: given.evict,
        history: given.history,
        journal: journal.clone(),
        pressure: given.pressure,
    };
    let started = Engine::start(needs, given.remembered);
    match started {
        Ok((engine, running, teller)) => {
            observer.wake(teller);
            observer.show_pressed(Arc::new(engine));
            Some(running)
        }
        Err(error) => {
            let message = format!("eviction is off: {error}");
            warn!("{message}");
            let detail = Detail::Agent { reason: "FeatureOff".into(), message };
            journal.append(Timestamp::now(), "", None, detail);
            None
        }
    }
}

/// In mode observe: what would be done with the pods that are seen.
pub fn seen(
    config: &Config,
    observer: &Arc<Observer>,
    journal: &Journal,
    collector: Option<Collector>,
) -> Option<Running> {
    let found = {
        let registry = observer.registry.lock();
        let kubepods = |group: &&nodewarden_observer::registry::Group| *group.identity == Identity::Kubepods;
        registry.groups().find(kubepods).map(|group| group.path.to_string())
    };
    let levels =
        || Levels::below(&config.node.cgroup_root).ok().map(|levels| levels.kubepods.cgroupfs_path());
    let given = Given {
        kubepods: found.or_else(levels).unwrap_or_else(|| "/kubepods".to_owned()),
        subjects: Box::new(Seen(observer.clone())),
        collector,
        evict: None,
        pressure: watch::Sender::default(),
        history: history(config, journal),
        remembered: Remembered::open(&config.state_dir),
    };
    start(config, observer, journal, given)
}

/// Every pod that is seen, whoever runs it. Of their manifests nothing is known: a request of memory is read from
/// `oom_score_adj`, priorities count as 0.
pub struct Seen(pub Arc<Observer>);

impl Subjects for Seen {
    fn pods(&self) -> Vec<Subject> {
        let groups: Vec<(Arc<Identity>, Arc<str>, Timestamp)> = {
            let registry = self.0.registry.lock();
            let there = registry.groups().filter(|group| group.removed.is_none());
            there.map(|group| (group.identity.clone(), group.path.clone(), group.created)).collect()
        };
        let mut containers: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (identity, ..) in &groups {
            if let Identity::Container { pod_uid, id, names, sandbox: false, .. } =
                &*self.0.names.name(identity)
            {
                let name = names.as_ref().map_or_else(|| id.clone(), |names| names.name.clone());
                containers.entry(pod_uid.clone()).or_default().push((name, id.clone()));
            }
        }
        let subject = |(identity, path, created): &(Arc<Identity>, Arc<str>, Timestamp)| {
            let named = self.0.names.name(identity);
            let Identity::Pod { uid, qos, names } = &*named else { return None };
            let names = names.clone().unwrap_or_default();
            let own = containers.get(uid).cloned().unwrap_or_default();
            let mut pod = stand_in(uid, &names.namespace, &names.name, &own)?;
            pod.qos = *qos;
            Some(Subject {
                pod: Arc::new(pod),
                cgroup: path.to_string(),
                started: *created,
                home: std::path::PathBuf::new(),
                logs: std::path::PathBuf::new(),
                containers: own,
            })
        };
        groups.iter().filter_map(subject).collect()
    }

    fn leaving(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A pod of which only its names are known.
fn stand_in(uid: &str, namespace: &str, name: &str, containers: &[(String, String)]) -> Option<Pod> {
    let known = |text: &str, or: &str| if text.is_empty() { or.to_owned() } else { text.to_owned() };
    let container = |(name, _): &(String, String)| v1::Container {
        name: name.chars().take(63).collect(),
        image: Some("unknown".into()),
        ..Default::default()
    };
    let mut all: Vec<v1::Container> = containers.iter().map(container).collect();
    if all.is_empty() {
        all.push(container(&("unknown".into(), String::new())));
    }
    let pod = v1::Pod {
        metadata: ObjectMeta {
            uid: Some(uid.to_owned()),
            namespace: Some(known(namespace, "unknown")),
            name: Some(known(name, &format!("pod{uid}"))),
            ..Default::default()
        },
        spec: Some(v1::PodSpec { containers: all, ..Default::default() }),
        ..Default::default()
    };
    Pod::from_kubernetes(pod).ok()
}
