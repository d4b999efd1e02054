//! What a feature wants to be written.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The features that write.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::EnumIter,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum Feature {
    /// Daemons of the node are protected.
    Protection,
    /// `memory.high` of pods above their requests.
    MemoryHigh,
    /// `cpu.idle` of BestEffort pods.
    CpuIdle,
    /// The burst of CPU quotas.
    CpuBurst,
}

impl Feature {
    /// Its key in the configuration.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What the cgroup or process of a value is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, strum::EnumIter,
)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// `kubepods`, and the QoS classes below it.
    Qos,
    /// A pod.
    Pod,
    /// A container, and what it has made below.
    Container,
    /// A daemon of the node, and the cgroups above it.
    Daemon,
    /// A process of such a daemon.
    Process,
}

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The cgroup's directory, or `/proc/PID`.
    pub directory: PathBuf,
    /// The file in it.
    pub file: String,
}

impl Place {
    /// The file of this name in a directory.
    pub fn new(directory: &Path, file: &str) -> Self {
        Self { directory: directory.to_owned(), file: file.to_owned() }
    }

    /// The whole path.
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.file)
    }
}

/// A file that the kernel changes together with the one that is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Companion {
    /// The file in the same directory.
    pub file: String,
    /// What stood there before.
    pub old: String,
    /// What the kernel leaves there when the written file is put back.
    pub left: String,
}

/// A value that should be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// For which feature.
    pub feature: Feature,
    /// Whose it is.
    pub level: Level,
    /// Where.
    pub place: Place,
    /// In the form in which the kernel shows it.
    pub value: String,
    /// What may stand there before it is written for the first time; another value is another program's.
    /// Empty for any.
    pub instead_of: &'static [&'static str],
    /// The file that the kernel changes with it, and what it leaves there.
    pub companion: Option<(&'static str, &'static str)>,
    /// The uid of the pod that it is for; empty for a daemon.
    pub pod: String,
}
