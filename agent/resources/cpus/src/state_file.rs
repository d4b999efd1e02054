//! The file `cpu_manager_state`, as a kubelet writes and reads it (`pkg/kubelet/cm/cpumanager/state`).
//!
//! Its second format has the CPUs of containers by pod and name, its third also those of pods as a whole. Its
//! first format has container ids instead; only kubelets before 1.18 wrote it.

#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;

use nodewarden_machine::cpu_set::CpuSet;
use nodewarden_model::fnv::fnv32a;
use serde::{Deserialize, Serialize};

use crate::{Assignments, CpuManager, Policy};

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StateFile {
    /// The name of the policy: `none` or `static`.
    pub policy: String,
    /// The CPUs that containers share.
    pub shared: CpuSet,
    /// The CPUs of containers and pods.
    pub assignments: Assignments,
}

/// The file is damaged, or none of a kubelet. It should be set aside, not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateFileError {
    /// It is not the JSON that it should be.
    #[error("cpu_manager_state: {0}")]
    Json(String),
    /// The checksum is not that of the content.
    #[error("cpu_manager_state: the checksum is {found}, that of the content is {expected}")]
    Checksum {
        /// In the file.
        found: u64,
        /// Computed.
        expected: u32,
    },
    /// A list of CPUs cannot be read.
    #[error("cpu_manager_state: {field}: {text:?} is not a list of CPUs")]
    Cpus {
        /// Of which container or pod, or `defaultCpuSet`.
        field: String,
        /// What is there.
        text: String,
    },
    /// It has the first format, and this container id is not known.
    #[error("cpu_manager_state: entries: container id {0:?} is not known")]
    UnknownContainer(String),
}

/// The fields, in the order of the file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    policy_name: &'a str,
    default_cpu_set: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    entries: BTreeMap<&'a str, BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pod_entries: BTreeMap<&'a str, PodEntry>,
    checksum: u32,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodEntry {
    cpu_set: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Read {
    policy_name: String,
    default_cpu_set: String,
    entries: Entries,
    pod_entries: BTreeMap<String, PodEntry>,
    checksum: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entries {
    ByPod(BTreeMap<String, BTreeMap<String, String>>),
    ById(BTreeMap<String, String>),
    Missing(()),
}

impl Default for Entries {
    fn default() -> Self {
        Self::Missing(())
    }
}

impl StateFile {
    /// What a manager has to save.
    pub fn of(manager: &CpuManager) -> Self {
        let settings = manager.settings();
        let shared = match settings.policy {
            // The kubelet's policy none keeps no sets.
            Policy::None => CpuSet::default(),
            Policy::Static => manager.shared(),
        };
        Self { policy: settings.policy.name().to_owned(), shared, assignments: manager.assignments().clone() }
    }

    /// The text of the file: in the third format with `pod_level` (the feature gate PodLevelResourceManagers)
    /// or if a pod has CPUs as a whole, else in the second.
    pub fn write(&self, pod_level: bool) -> String {
        let pod_level = pod_level || !self.assignments.pods.is_empty();
        let texts = |cpus: &'_ BTreeMap<String, CpuSet>| -> BTreeMap<String, String> {
            cpus.iter().map(|(name, cpus)| (name.clone(), cpus.to_string())).collect()
        };
        let entries = self.assignments.containers.iter();
        let entries = entries.map(|(uid, containers)| (uid.as_str(), texts(containers)));
        let pods = self.assignments.pods.iter();
        let file = Written {
            policy_name: &self.policy,
            default_cpu_set: self.shared.to_string(),
            entries: entries.collect(),
            pod_entries: pods
                .map(|(uid, cpus)| (uid.as_str(), PodEntry { cpu_set: cpus.to_string() }))
                .collect(),
            checksum: self.checksum(pod_level),
        };
        serde_json::to_string(&file).unwrap_or_default()
    }

    /// The checksum of the second or third format.
    pub fn checksum(&self, pod_level: bool) -> u32 {
        fnv32a(&text::of(self, pod_level || !self.assignments.pods.is_empty()))
    }

    /// Reads a file of any format. `container_of`: pod uid and container name of a container id, for the
    /// first format. A checksum of 0 or none is accepted, as by the kubelet, in the first and second format.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn read(
        text: &str,
        container_of: impl Fn(&str) -> Option<(String, String)>,
    ) -> Result<Self, StateFileError> {
        let (state, found, texts) = Self::parse(text, container_of)?;
        if found == 0 && state.assignments.pods.is_empty() {
            return Ok(state);
        }
        let sums: Vec<u32> = texts.iter().map(|text| fnv32a(text)).collect();
        match sums.iter().any(|sum| u64::from(*sum) == found) {
            true => Ok(state),
            false => Err(StateFileError::Checksum { found, expected: sums[0] }),
        }
    }

    /// What the file says, its checksum, and the texts that this may be of.
    pub(crate) fn parse(
        text: &str,
        container_of: impl Fn(&str) -> Option<(String, String)>,
    ) -> Result<(Self, u64, Vec<String>), StateFileError> {
        let file: Read =
            serde_json::from_str(text).map_err(|error| StateFileError::Json(error.to_string()))?;
        let mut state = Self {
            policy: file.policy_name,
            shared: cpus("defaultCpuSet", &file.default_cpu_set)?,
            assignments: Assignments::default(),
        };
        for (uid, entry) in &file.pod_entries {
            let cpus = cpus(&format!("podEntries of pod {uid}"), &entry.cpu_set)?;
            state.assignments.pods.insert(uid.clone(), cpus);
        }
        // What the text of the checksum has of the first format.
        let mut first_format = None;
        match file.entries {
            Entries::Missing(()) => {}
            Entries::ByPod(pods) => {
                for (uid, containers) in pods {
                    for (name, list) in containers {
                        let cpus = cpus(&format!("pod {uid}, container {name}"), &list)?;
                        state.assignments.containers.entry(uid.clone()).or_default().insert(name, cpus);
                    }
                }
            }
            Entries::ById(ids) => {
                for (id, list) in &ids {
                    let cpus = cpus(&format!("container id {id}"), list)?;
                    let (uid, name) =
                        container_of(id).ok_or_else(|| StateFileError::UnknownContainer(id.clone()))?;
                    state.assignments.containers.entry(uid).or_default().insert(name, cpus);
                }
                first_format = Some(text::first(&state, &ids));
            }
        }
        // A third format without pods is written without them, but they count in its checksum.
        let texts = match first_format {
            Some(text) => vec![text],
            None if !state.assignments.pods.is_empty() => vec![text::of(&state, true)],
            None => vec![text::of(&state, false), text::of(&state, true)],
        };
        Ok((state, file.checksum, texts))
    }
}

fn cpus(field: &str, text: &str) -> Result<CpuSet, StateFileError> {
    CpuSet::parse(text).map_err(|_| StateFileError::Cpus { field: field.to_owned(), text: text.to_owned() })
}
