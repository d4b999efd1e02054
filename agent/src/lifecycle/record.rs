//! What of a pod must outlive the agent: the manifest that was accepted, restart counts, back-off, and how far its end
//! is.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use serde::{Deserialize, Serialize};

use crate::view::{Ended, OomVictim};

/// One pod's record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The pod as it runs, its uid among it; an in-place resize replaces it.
    pub manifest: v1::Pod,
    /// Path of the file that it came from.
    pub origin: String,
    pub accepted: Timestamp,
    /// By name.
    #[serde(default)]
    pub containers: BTreeMap<String, ContainerRecord>,
    /// Set when the pod is to go.
    #[serde(default)]
    pub ending: Option<Ending>,
}

/// What of one container must outlive the agent and the runtime's own memory of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRecord {
    /// How often it was started again; the next one's attempt is one more.
    pub restarts: u32,
    /// Failures in a row that count for the back-off; none after it ran long enough.
    pub failures: u32,
    /// What the newest one was told at its start or last update: `resources` as in the manifest.
    pub told: Option<v1::ResourceRequirements>,
    /// How the newest one that ended did.
    pub last: Option<Ended>,
    /// The container whose postStart hook is done.
    pub hooked: String,
    /// The newest process of the container with this id that was killed for memory.
    pub oom: Option<(String, OomVictim)>,
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
