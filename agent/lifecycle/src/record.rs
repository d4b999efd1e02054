//! What of a pod must outlive the agent: the manifest that was accepted, restart counts, back-off, and how far its end
//! is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use serde::{Deserialize, Serialize};

use super::evicted::Evicted;
use super::manifest::Manifest;
use super::{ContainerSeen, KillReason, Observed, backoff, policy};
use nodewarden_config::PodSettings;
use nodewarden_manifest::{Container, ContainerKind, Pod};
use nodewarden_model::{Ended, OomVictim};
use nodewarden_pods::probes::ProbeMemory;

/// One pod's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The pod as it runs, its uid among it; an in-place resize replaces it.
    pub manifest: Manifest,
    /// Path of the file that it came from.
    pub origin: String,
    pub accepted: Timestamp,
    /// By name. Boxed, since a map has room for eleven from the first on.
    #[serde(default)]
    pub containers: BTreeMap<String, Box<ContainerRecord>>,
    /// Set when the pod is to go.
    #[serde(default)]
    pub ending: Option<Ending>,
    /// It holds what it asks for. A record that does not say is of a pod that nobody checked.
    #[serde(default = "admitted")]
    pub admitted: bool,
    /// Its newest eviction, also when it is back from it. Boxed, since most pods have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Box<Evicted>>,
}

fn admitted() -> bool {
    true
}

/// What of one container must outlive the agent and the runtime's own memory of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRecord {
    /// How often it was started again: the newest one's attempt.
    pub restarts: u32,
    /// Ends in a row that count for the back-off; none after it ran long enough.
    pub failures: u32,
    /// What the newest one was told at its start or last update: `resources` as in the manifest. Set from before its
    /// creation.
    pub told: Option<v1::ResourceRequirements>,
    /// The newest one was about to be created, and it is not known that it was: its attempt was none if the runtime does
    /// not have it.
    pub pending: bool,
    /// How the newest one that ended did.
    pub last: Option<Ended>,
    /// The container whose postStart hook is done.
    pub hooked: String,
    /// The container that the agent itself ended to start it again: no failure of its own.
    pub stopped: String,
    /// The newest process of the container with this id that was killed for memory.
    pub oom: Option<(String, OomVictim)>,
    /// Of its probes. Boxed, since most containers have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<Box<ProbeRecord>>,
}

/// What of a container's probes must outlive the agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProbeRecord {
    /// How they stand.
    pub memory: ProbeMemory,
    /// The container that the agent ended for one of them: it failed, however it exits.
    pub ended: String,
}

/// A pod on its way out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    pub since: Timestamp,
    pub grace_seconds: u64,
    /// In words, for events and status: `removed from its manifest`.
    pub why: String,
}

impl Record {
    /// Of a pod just accepted.
    pub fn new(pod: &Pod, origin: &str, accepted: Timestamp) -> Self {
        Self {
            manifest: Manifest::of(pod),
            origin: origin.to_owned(),
            accepted,
            containers: BTreeMap::new(),
            ending: None,
            admitted: false,
            eviction: None,
        }
    }

    pub fn uid(&self) -> &str {
        self.manifest.uid()
    }

    /// What is known of a container; nothing yet is the default.
    pub fn container(&self, name: &str) -> Option<&ContainerRecord> {
        self.containers.get(name).map(Box::as_ref)
    }

    /// To be saved before a container is created.
    pub fn note_start(&mut self, container: &Container, attempt: u32) {
        let own = self.containers.entry(container.name.clone()).or_default();
        own.restarts = own.restarts.max(attempt);
        own.pending = true;
        own.told = Some(container.resources.to_kubernetes());
    }

    /// To be saved some time after a container was created.
    pub fn note_created(&mut self, name: &str) {
        self.containers.entry(name.to_owned()).or_default().pending = false;
    }

    /// To be saved after a running container was given its resources anew.
    pub fn note_update(&mut self, container: &Container) {
        self.containers.entry(container.name.clone()).or_default().told =
            Some(container.resources.to_kubernetes());
    }

    /// To be saved before a container is ended for `reason`.
    pub fn note_kill(&mut self, name: &str, id: &str, reason: KillReason) {
        match reason {
            KillReason::Resize | KillReason::Unknown => {
                id.clone_into(&mut self.containers.entry(name.to_owned()).or_default().stopped);
            }
            KillReason::Liveness | KillReason::Startup => {
                let own = self.containers.entry(name.to_owned()).or_default();
                id.clone_into(&mut own.probes.get_or_insert_default().ended);
            }
            KillReason::PostStart | KillReason::NotWanted | KillReason::PodEnds => {}
        }
    }

    /// Whether a running container's postStart hook is done, if it has one.
    pub fn hook_is_done(&self, pod: &Pod, seen: &ContainerSeen) -> bool {
        !policy::has_post_start(pod, &seen.name)
            || self.container(&seen.name).is_some_and(|own| own.hooked == seen.id)
    }

    /// Takes over how containers of the pod ended. Noting the same again changes nothing.
    ///
    /// Returns the ends that were news, in the order of their attempts.
    pub fn note_ends(
        &mut self,
        pod: &Pod,
        observed: &Observed,
        settings: &PodSettings,
    ) -> Vec<(String, Ended)> {
        let mut news = Vec::new();
        for container in pod.init_containers.iter().chain(&pod.containers) {
            let mut ended: Vec<&ContainerSeen> = observed.ended(&container.name).collect();
            ended.sort_by_key(|seen| (seen.attempt, seen.created));
            for seen in ended {
                let own = self.containers.entry(container.name.clone()).or_default();
                if let Some(ended) = own.note_end(container.kind, seen, settings) {
                    news.push((container.name.clone(), ended));
                }
            }
        }
        news
    }
}

impl ContainerRecord {
    /// The attempt of the newest one that was created, as far as is noted.
    pub fn newest_attempt(&self) -> Option<u32> {
        match (self.pending, self.told.is_some() || self.last.is_some()) {
            (_, false) => None,
            (true, true) => self.restarts.checked_sub(1),
            (false, true) => Some(self.restarts),
        }
    }

    /// Takes over how its probes stand, of the container in `memory`.
    pub fn note_probes(&mut self, memory: &ProbeMemory) {
        self.probes.get_or_insert_default().memory = memory.clone();
    }

    /// How the probes of the container `id` stood when the record was saved.
    pub fn memory(&self, id: &str) -> Option<&ProbeMemory> {
        self.probes.as_ref().map(|probes| &probes.memory).filter(|memory| memory.container == id)
    }

    /// A probe had the container `id` ended.
    pub fn ended_by_probe(&self, id: &str) -> bool {
        self.probes.as_ref().is_some_and(|probes| probes.ended == id)
    }

    /// `None` for an end that was noted before or is older than the one noted.
    fn note_end(
        &mut self,
        kind: ContainerKind,
        seen: &ContainerSeen,
        settings: &PodSettings,
    ) -> Option<Ended> {
        if self.knows_end(seen) {
            return None;
        }
        let ended = self.ended(seen);
        self.failures = self.failures_with(kind, seen, settings);
        self.pending &= seen.attempt < self.restarts;
        self.restarts = self.restarts.max(seen.attempt);
        self.last = Some(ended.clone());
        Some(ended)
    }

    /// Ends in a row that count, the one of `seen` among them.
    pub(super) fn failures_with(
        &self,
        kind: ContainerKind,
        seen: &ContainerSeen,
        settings: &PodSettings,
    ) -> u32 {
        if self.knows_end(seen) || self.stopped == seen.id {
            return self.failures;
        }
        if kind == ContainerKind::Init && seen.exit_code == 0 {
            return 0;
        }
        let begun = seen.started.unwrap_or(seen.created);
        backoff::count(self.failures, backoff::between(begun, seen.finished.unwrap_or(begun)), settings)
    }

    /// The end of an earlier attempt was noted before the next one began.
    fn knows_end(&self, seen: &ContainerSeen) -> bool {
        self.last.as_ref().is_some_and(|last| last.id == seen.id || seen.attempt < self.restarts)
    }

    /// How `seen` ended, with the process that the kernel killed in it.
    ///
    /// The reason is `OOMKilled` where the runtime says so, and where any process of the container was killed for
    /// memory: containerd says the same, but only if its own OOM event came in time.
    pub fn ended(&self, seen: &ContainerSeen) -> Ended {
        let oom = self.victim(&seen.id).cloned();
        let reason = match (&oom, seen.exit_code) {
            (Some(_), _) => OOM_KILLED.to_owned(),
            (_, 0) if seen.reason.is_empty() => "Completed".to_owned(),
            _ if seen.reason.is_empty() => "Error".to_owned(),
            _ => seen.reason.clone(),
        };
        Ended {
            id: seen.id.clone(),
            exit_code: seen.exit_code,
            signal: signal(seen.exit_code),
            reason,
            message: seen.message.clone(),
            started: seen.started,
            finished: seen.finished,
            oom,
        }
    }

    /// Takes over that the kernel killed a process of the container `id`: also of one whose end was noted before.
    pub fn note_oom(&mut self, id: &str, victim: OomVictim) {
        if let Some(last) = self.last.as_mut().filter(|last| last.id == id) {
            OOM_KILLED.clone_into(&mut last.reason);
            last.oom = Some(victim.clone());
        }
        self.oom = Some((id.to_owned(), victim));
    }

    /// The newest process of the container `id` that was killed for memory.
    pub fn victim(&self, id: &str) -> Option<&OomVictim> {
        self.oom.as_ref().filter(|(of, _)| of == id).map(|(_, victim)| victim)
    }
}

/// The kubelet's and containerd's reason.
pub const OOM_KILLED: &str = "OOMKilled";

/// The signal in an exit status as runtimes and shells give it: 128 and its number.
fn signal(exit_code: i32) -> i32 {
    const LAST: i32 = 64;
    match exit_code - 128 {
        number @ 1..=LAST => number,
        _ => 0,
    }
}
