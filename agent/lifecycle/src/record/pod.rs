//! What of a pod must outlive the agent: the manifest that was accepted, restart counts, back-off, and how
//! far its end is.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Evicted;
use super::given;
use super::manifest::Manifest;
use crate::id::Id;
use nodewarden_manifest::{ByName, Container, Pod, Resources};
use nodewarden_model::{ClockReading, EndReason, Ended, OomVictim, Origin};
use nodewarden_pods::probes::ProbeMemory;

/// One pod's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The pod as it runs, its uid among it; an in-place resize replaces it.
    pub manifest: Manifest,
    /// Where its source has it.
    pub origin: Origin,
    pub accepted: Timestamp,
    /// By name.
    #[serde(default)]
    pub containers: ByName<ContainerRecord>,
    /// Set when the pod is to go.
    #[serde(default)]
    pub ending: Option<Ending>,
    /// It holds what it asks for. Records from before there was admission do not have it: such a pod runs,
    /// and counts as admitted.
    #[serde(default = "admitted")]
    pub admitted: bool,
    /// Its newest eviction, also when it has started again since. Boxed, since most pods have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Box<Evicted>>,
    /// The clocks when these times were right. Unknown in records of older agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Box<ClockReading>>,
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
    /// The resources that the runtime was given for the newest one at its start or last update, as in the
    /// manifest. Set before its creation.
    // Records on disk have it under this name since 0.1.0.
    #[serde(rename = "told", with = "given")]
    pub given: Option<Arc<Resources>>,
    /// The image that the newest one was made of, as in the spec, where the image of a running container can
    /// change: in pods of the API server. Set before its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<Box<str>>,
    /// The newest one was about to be created, and it is not known that it was: its attempt was none if the
    /// runtime does not have it.
    pub pending: bool,
    /// How the newest one that ended did.
    pub last: Option<Box<Ended>>,
    /// The container whose postStart hook is done. Its id is shared with what the runtime has.
    pub hooked: Id,
    /// When that container started. The runtime's time stays where it is when the wall clock is set; this one
    /// moves along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begun: Option<Timestamp>,
    /// The container that the agent itself ended to start it again: no failure of its own.
    pub stopped: Id,
    /// The newest process of the container with this id that was killed for memory.
    pub oom: Option<Box<(String, OomVictim)>>,
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

/// The order to end a pod for good.
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
    pub fn new(pod: &Arc<Pod>, origin: impl Into<Origin>, accepted: Timestamp) -> Self {
        Self {
            manifest: Manifest::of(pod),
            origin: origin.into(),
            accepted,
            containers: ByName::new(),
            ending: None,
            admitted: false,
            eviction: None,
            clock: None,
        }
    }

    /// Moves the times along with the wall clock if it was set since they were taken, so that grace periods
    /// and back-offs are as long as they should be.
    pub fn align(&mut self, now: &ClockReading) {
        let Self { accepted, containers, ending, eviction, clock, .. } = self;
        let mut kept = clock.take().map(|kept| *kept);
        now.align(&mut kept, |shift| {
            shift.apply(accepted);
            containers.values_mut().filter_map(|own| own.begun.as_mut()).for_each(|time| shift.apply(time));
            let ended = containers.values_mut().filter_map(|own| own.last.as_mut());
            ended.filter_map(|last| last.finished.as_mut()).for_each(|time| shift.apply(time));
            if let Some(ending) = ending {
                shift.apply(&mut ending.since);
            }
            if let Some(evicted) = eviction.as_deref_mut() {
                let Evicted { since, due, gone, back, .. } = evicted;
                [since, due].into_iter().chain(gone).chain(back).for_each(|time| shift.apply(time));
            }
        });
        *clock = kept.map(Box::new);
    }

    pub fn uid(&self) -> &str {
        self.manifest.uid()
    }

    /// What is known of a container; nothing yet is the default.
    pub fn container(&self, name: &str) -> Option<&ContainerRecord> {
        self.containers.get(name)
    }

    /// To be saved before a container is created.
    pub fn note_start(&mut self, container: &Container, attempt: u32) {
        let own = self.containers.get_or_default(&container.name);
        own.restarts = own.restarts.max(attempt);
        own.pending = true;
        own.given = Some(container.resources.clone());
    }

    /// To be saved with [`Self::note_start`] where the image of a running container can change. The back-off
    /// begins again with another image.
    pub fn note_image(&mut self, name: &str, image: &str) {
        let own = self.containers.get_or_default(name);
        let before = own.image.replace(image.into());
        if before.is_some_and(|before| *before != *image) {
            own.failures = 0;
        }
    }

    /// To be saved some time after a container was created.
    pub fn note_created(&mut self, name: &str) {
        self.containers.get_or_default(name).pending = false;
    }

    /// To be saved after a running container was given other resources.
    pub fn note_update(&mut self, container: &Container) {
        self.containers.get_or_default(&container.name).given = Some(container.resources.clone());
    }
}

impl ContainerRecord {
    /// The attempt of the newest one that was created, as far as is noted.
    pub fn newest_attempt(&self) -> Option<u32> {
        match (self.pending, self.given.is_some() || self.last.is_some()) {
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

    /// Takes over that the kernel killed a process of the container `id`: also of one whose end was noted
    /// before.
    pub fn note_oom(&mut self, id: &str, victim: OomVictim) {
        if let Some(last) = self.last.as_mut().filter(|last| last.id == id) {
            last.reason = EndReason::OomKilled;
            last.oom = Some(victim.clone());
        }
        self.oom = Some(Box::new((id.to_owned(), victim)));
    }

    /// The newest process of the container `id` that was killed for memory.
    pub fn victim(&self, id: &str) -> Option<&OomVictim> {
        self.oom.as_deref().filter(|(of, _)| of == id).map(|(_, victim)| victim)
    }
}
