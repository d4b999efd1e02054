//! Devices beside a kubelet: who has what, accesses to devices of others, and devices that are lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nodewarden_augment::incident::reason;
use nodewarden_augment::{Report, SeenPod, policy};
use nodewarden_config::Enforcement;
use nodewarden_cri::Client;
use nodewarden_devices::Enforcer;
use nodewarden_devices::beside::{
    Answer, BesideGuards, Change, Changed, KubeletSocket, Round, Seen, SeenContainer, Settings, ShownDevices,
};
use nodewarden_machine::cgroup::join;
use nodewarden_model::{Detail, HookState};
use nodewarden_observer::Observer;
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::{blocking, parts};
use tokio::task::JoinSet;
use tracing::warn;

use super::pods::ApiPods;
use super::record;
use crate::daemon::context::Context;
use crate::daemon::observe;

/// How long one poll of the task may take: it never blocks.
const LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked whether there are other containers.
const LOOK: Duration = Duration::from_secs(1);
/// How often the kubelet is asked while there are none.
const AGAIN: Duration = Duration::from_secs(5);
/// A cgroup has its device rules when it is so old.
const SETTLED: Duration = Duration::from_secs(10);
/// How many containers the runtime is asked about in one round.
const ASKED_AT_ONCE: usize = 32;

/// The task, and what others read of it. The task ends when this is dropped.
pub struct DevicesBeside {
    /// `None` where accesses cannot be found out.
    pub enforcer: Option<Enforcer>,
    pub shown: ShownDevices,
    /// Knows the names of the pods.
    pub known: ApiPods,
    _tasks: JoinSet<()>,
}

impl DevicesBeside {
    /// Attaches the kernel's program and starts the task; `None` if the feature is off. Must be called inside
    /// a tokio runtime.
    pub fn start(context: Context<'_>, known: ApiPods) -> Option<Self> {
        let (config, observer) = (context.config, context.observer);
        if config.augment.devices == Enforcement::Off {
            return None;
        }
        let settings = Settings {
            mode: config.augment.devices,
            plugin_directory: config.augment.device_plugin_directory.clone(),
            host_root: config.augment.host_root.clone(),
            extra: config.devices.extra.clone(),
            has_runtime: config.runtime_endpoint.is_some(),
        };
        let mut guards = BesideGuards::new(settings, observer.facts.layout.clone());
        let enforcer = attach(context);
        if let Some(enforcer) = &enforcer {
            guards.enforce_by(enforcer.clone());
        }
        let shown = guards.shown().clone();
        let client = config
            .runtime_endpoint
            .as_ref()
            .map(|endpoint| Client::new(endpoint).with_request_limit(config.pods.runtime_request_timeout));
        let watch = Watch {
            kubelet: KubeletSocket::new(&config.augment.pod_resources_socket),
            client,
            observer: observer.clone(),
            known: known.clone(),
            journal: context.journal.clone(),
            reported: BTreeSet::new(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn_on(parts::register("devices beside", LIMIT).task(watch.run(guards)), context.runtime);
        Some(Self { enforcer, shown, known, _tasks: tasks })
    }
}

/// Attaches the program where pods are. `None` if that is not possible, which the log and the journal say.
fn attach(context: Context<'_>) -> Option<Enforcer> {
    let observer = context.observer;
    let layout = &observer.facts.layout;
    let kubepods = observe::kubepods(context);
    let directory = layout.unified().map(|unified| join(&unified.mount, &kubepods));
    let problem = match directory {
        // It is the kubelet's to make it.
        Some(directory) if !directory.is_dir() => {
            format!(
                "there is no {} yet: start the agent again when the kubelet has made it",
                directory.display()
            )
        }
        _ => {
            let enforcer = Enforcer::start_beside(observer.kernel.lock().as_mut(), layout, &kubepods);
            let topic = enforcer.state();
            if topic.state == HookState::On {
                return Some(enforcer);
            }
            topic.reason
        }
    };
    let message = format!("accesses to devices are not found out: {problem}");
    warn!("{message}");
    let detail = Detail::Agent { reason: "FeatureOff".into(), message };
    context.journal.append(Timestamp::now(), "", None, detail);
    None
}

/// What the task works with.
struct Watch {
    kubelet: KubeletSocket,
    client: Option<Client>,
    observer: Arc<Observer>,
    known: ApiPods,
    journal: Journal,
    /// Problems that were reported and still hold.
    reported: BTreeSet<String>,
}

impl Watch {
    async fn run(mut self, mut guards: BesideGuards) {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut last, mut containers) = (None::<Instant>, BTreeSet::new());
        let mut version = None;
        loop {
            ticks.tick().await;
            let is_recent = last.is_some_and(|last| last.elapsed() < AGAIN);
            let before = version.replace(self.known.version(&self.observer));
            if is_recent && before == version {
                continue;
            }
            // Before the kubelet is asked: what it says then holds for these.
            let seen: Vec<Seen> = self.known.seen_now(&self.observer).into_iter().map(of).collect();
            let now = seen.iter().map(|own| own.pod.uid.clone());
            let now: BTreeSet<String> =
                now.chain(seen.iter().flat_map(|own| &own.containers).map(|own| own.id.clone())).collect();
            if is_recent && now == containers {
                continue;
            }
            let Some(used) = self.round(guards, seen).await else {
                warn!("devices are no longer watched, through a fault in the agent");
                return;
            };
            guards = used;
            (last, containers) = (Some(Instant::now()), now);
        }
    }

    /// One round. `None` if the thread has ended through a fault.
    async fn round(&mut self, mut guards: BesideGuards, seen: Vec<Seen>) -> Option<BesideGuards> {
        let answer = self.kubelet.ask().await.map_err(|error| error.to_string());
        let mut problems = Vec::new();
        if let Ok(answer) = &answer {
            problems.extend(self.ask_runtime(&mut guards, answer, &seen).await);
        }
        let known = self.known.clone();
        let work = move || {
            let uid = |namespace: &str, name: &str| known.uid(namespace, name);
            let round = guards.round(answer.as_ref().map_err(String::as_str), &seen, &uid);
            (guards, round)
        };
        let (guards, mut round) = blocking::DEVICES.run(work).await.ok()?;
        round.problems.extend(problems);
        self.report(round);
        Some(guards)
    }

    /// Asks for the devices of containers that are new. Returns why that failed.
    async fn ask_runtime(&self, guards: &mut BesideGuards, answer: &Answer, seen: &[Seen]) -> Option<String> {
        let client = self.client.as_ref()?;
        for id in guards.to_ask(answer, seen).into_iter().take(ASKED_AT_ONCE) {
            match client.container_devices(&id).await {
                Ok(devices) => guards.set_runtime_devices(id, devices),
                // A sandbox, or one that has just ended.
                Err(error) if error.is_not_found() => guards.set_runtime_devices(id, Vec::new()),
                Err(error) => return Some(error.to_string()),
            }
        }
        None
    }

    fn report(&mut self, round: Round) {
        for Change { changed, uid, container, message } in round.changes {
            let reason = match changed {
                Changed::Lost => reason::DEVICE_LOST,
                Changed::Back => reason::DEVICE_BACK,
            };
            let report = Report { pod: uid, container, reason, message };
            record(&self.journal, report, |uid| self.known.place(uid));
        }
        let now: BTreeSet<String> = round.problems.into_iter().collect();
        for message in now.difference(&self.reported) {
            warn!("devices: {message}");
            let detail = Detail::Agent { reason: "DevicesUnknown".into(), message: message.clone() };
            self.journal.append(Timestamp::now(), "", None, detail);
        }
        self.reported = now;
    }
}

fn of(seen: SeenPod) -> Seen {
    let containers = seen.containers.into_iter().map(|own| SeenContainer {
        name: own.name,
        id: own.id,
        cgroup: own.cgroup,
        has_rules: own.age >= SETTLED,
    });
    Seen {
        opted_out: policy::read(&seen.pod.annotations).0.opted_out,
        cgroup: seen.cgroup,
        containers: containers.collect(),
        pod: seen.pod,
    }
}
