//! Eviction beside a kubelet: the engine of the other modes, whose victims the API server hears of.

use std::time::Duration;

use jiff::Timestamp;
use nodewarden_augment::policy;
use nodewarden_config::{Enforcement, EvictionSettings, EvictionThreshold, KubeletEviction};
use nodewarden_eviction::engine::{Evict, KubeletPods, Subjects};
use nodewarden_eviction::{Eviction, Subject};
use nodewarden_kube::evict::{Evictor, Killed, Outcome};
use nodewarden_model::{Detail, PodRef};
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::parts;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::memory_bytes;
use super::pods::{ApiPods, Stage};
use crate::daemon::context::Context;
use crate::daemon::eviction::SeenPods;
use crate::daemon::observe::Evicting;

/// How long one poll of the task may take: it never blocks.
const LIMIT: Duration = Duration::from_secs(60);

/// What the engine is started with, and the task that talks to the API server.
pub struct Evictions {
    pub evicting: Evicting,
    /// When it acts.
    pub thresholds: Vec<EvictionThreshold>,
    pub tasks: JoinSet<()>,
}

impl Evictions {
    /// What an earlier agent has left to be said is said in any case. Without a connection, and with the
    /// feature off, it is only shown which pods would be evicted, as in mode observe.
    pub fn start(context: Context<'_>, known: &ApiPods) -> Self {
        let (config, feature) = (context.config, context.config.augment.eviction);
        let mut tasks = JoinSet::new();
        let is_off = feature == Enforcement::Off;
        if is_off && !Evictor::has_left(&config.state_dir) {
            let thresholds = config.eviction.thresholds.clone();
            return Self { evicting: Evicting::shown(context), thresholds, tasks };
        }
        let settings = settings(context);
        let thresholds = settings.thresholds.clone();
        let Some(connection) = context.kubernetes else {
            let evicting = Evicting { settings, ..Evicting::shown(context) };
            return Self { evicting, thresholds, tasks };
        };
        let journal = context.journal.clone();
        let report = move |pod: &Killed, outcome| report(&journal, pod, outcome);
        let (evictor, run, problem) = Evictor::start(connection.clone(), &config.state_dir, report);
        tasks.spawn_on(parts::register("API evictions", LIMIT).task(run), context.runtime);
        if let Some(message) = problem {
            note(context.journal, "RecordDamaged", message);
        }
        if is_off {
            return Self { evicting: Evicting::shown(context), thresholds, tasks };
        }
        let enforced = feature == Enforcement::Enforce;
        let seen = SeenPods(context.observer.clone());
        let evicting = Evicting {
            subjects: Box::new(KnownPods { seen, known: known.clone(), evictor: evictor.clone() }),
            settings,
            evict: enforced.then(|| evict(evictor.clone(), known.clone())),
            beside: Some(Box::new(Spared { known: known.clone(), evictor })),
        };
        Self { evicting, thresholds, tasks }
    }
}

/// The thresholds of the file, if those of memory and process ids are not the defaults; else somewhat before
/// the kubelet's.
fn settings(context: Context<'_>) -> EvictionSettings {
    let (own, augment) = (&context.config.eviction, &context.config.augment);
    if own.own_thresholds {
        info!("evicts at the thresholds of its own configuration");
        return EvictionSettings { max_pod_grace: bound(own.max_pod_grace), ..own.clone() };
    }
    let kubelet = KubeletEviction::read(&augment.kubelet_config).unwrap_or_else(|error| {
        let message = format!("the kubelet's thresholds are not known, its defaults are taken: {error}");
        note(context.journal, "KubeletConfigUnknown", message);
        KubeletEviction::default()
    });
    let mut thresholds = kubelet.ahead(augment.eviction_margin, memory_bytes());
    thresholds.retain(|one| one.signal.is_of_memory());
    for own in &thresholds {
        info!("evicts when {} is less than {}, after {:?}", own.signal.name(), own.value, own.grace);
    }
    // Of disks it is only shown what would be done.
    let disks = own.thresholds.iter().filter(|one| !one.signal.is_of_memory());
    thresholds.extend(disks.cloned());
    EvictionSettings { thresholds, max_pod_grace: bound(kubelet.max_pod_grace), ..own.clone() }
}

/// A kubelet without `evictionMaxPodGracePeriod` kills at once; the API server is asked with the pod's own
/// grace.
fn bound(max_pod_grace: Duration) -> Duration {
    if max_pod_grace.is_zero() { Duration::MAX } else { max_pod_grace }
}

/// Hands an eviction to the API server. A hard one has been decided: the engine kills at this moment.
fn evict(evictor: Evictor, known: ApiPods) -> Evict {
    Box::new(move |uid, eviction: Eviction| {
        // Others are spared.
        let Some(pod) = known.get(uid) else { return };
        let order = Killed {
            uid: uid.to_owned(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            message: eviction.message,
            time: Timestamp::now(),
        };
        match eviction.killed {
            true => evictor.killed(order),
            false => evictor.ask(order, eviction.grace.unwrap_or_default()),
        }
    })
}

/// Every pod that is seen, with its spec where the API server has it.
struct KnownPods {
    seen: SeenPods,
    known: ApiPods,
    evictor: Evictor,
}

impl Subjects for KnownPods {
    fn pods(&self) -> Vec<Subject> {
        self.evictor.forget_asked(|uid| self.known.get(uid).is_some());
        let with_spec = |subject: Subject| match self.known.get(&subject.pod.uid) {
            Some(pod) => Subject { pod, ..subject },
            None => subject,
        };
        self.seen.pods().into_iter().map(with_spec).collect()
    }

    fn leaving(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Which pods are never evicted.
struct Spared {
    known: ApiPods,
    evictor: Evictor,
}

impl KubeletPods for Spared {
    fn spares(&self, uid: &str, hard: bool) -> Option<&'static str> {
        let Some((pod, stage)) = self.known.staged(uid) else {
            return Some("static, or not known to the API server");
        };
        let asked = hard && self.evictor.has_asked(uid);
        match stage {
            Stage::Ended => Some("ended"),
            Stage::Leaves if !asked => Some("being deleted"),
            _ if policy::read(&pod.annotations).0.opted_out => Some("opted out"),
            _ if !hard && self.evictor.holds(uid) => Some("eviction refused"),
            _ => None,
        }
    }

    fn was_refused(&self, uid: &str) -> bool {
        self.evictor.holds(uid)
    }
}

/// Writes what became of an eviction into the journal and the log.
fn report(journal: &Journal, pod: &Killed, outcome: Outcome) {
    let name = format!("{}/{}", pod.namespace, pod.name);
    let (reason, message) = match outcome {
        Outcome::Failed => ("Evicted", "killed; its status at the API server is Failed".into()),
        Outcome::Deleted => ("Evicted", "killed, and deleted at the API server".into()),
        Outcome::Gone => ("Evicted", "it is no longer at the API server".into()),
        Outcome::Asked => ("Evicted", "the API server asks it to end".into()),
        Outcome::Refused(error) => ("EvictionRefused", format!("another pod is tried: {error}")),
        Outcome::Away(error) => ("EvictionRefused", format!("the API server is not there: {error}")),
    };
    info!("{reason}: {name}: {message}");
    let place = PodRef {
        uid: pod.uid.clone(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        ..PodRef::default()
    };
    let message = format!("{message} ({})", pod.message);
    journal.append(Timestamp::now(), "", Some(place), Detail::Pod { reason: reason.into(), message });
}

fn note(journal: &Journal, reason: &str, message: String) {
    warn!("{message}");
    journal.append(Timestamp::now(), "", None, Detail::Agent { reason: reason.into(), message });
}
