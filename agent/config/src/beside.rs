//! The thresholds of the kubelet beside which mode augment runs, read from its configuration file, and those
//! somewhat before them.
//!
//! The kubelet's `/configz` has the same, but reading it needs the right to `nodes/proxy`, by which any
//! command can be run in any pod of the node.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nodewarden_manifest::Quantity;
use serde_yaml_ng::{Mapping, Value};

use crate::eviction;
use crate::threshold::{self, EvictionTexts};
use crate::{EvictionThreshold, Problem, Signal, Threshold};

/// What decides when a kubelet evicts.
#[derive(Debug, Clone, PartialEq)]
pub struct KubeletEviction {
    /// Without the copy for the limit of all pods.
    pub thresholds: Vec<EvictionThreshold>,
    /// `evictionMaxPodGracePeriod`; zero if it is not set, [`Duration::MAX`] for no bound.
    pub max_pod_grace: Duration,
    /// Whether the limit of all pods is enforced (`enforceNodeAllocatable` has `pods`).
    pub pods_enforced: bool,
}

/// Why a kubelet's thresholds are not known.
#[derive(Debug, thiserror::Error)]
pub enum KubeletConfigError {
    /// When the file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// When it is no YAML, or no mapping.
    #[error("{path}: {source}")]
    Yaml {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        source: serde_yaml_ng::Error,
    },
    /// When a threshold in it is none.
    #[error("{path}: {problem}")]
    Threshold {
        /// The file.
        path: PathBuf,
        /// The first that is wrong.
        problem: Box<Problem>,
    },
}

impl Default for KubeletEviction {
    /// That of a kubelet whose configuration says nothing about it.
    fn default() -> Self {
        of_mapping(&Mapping::new()).unwrap_or(Self {
            thresholds: Vec::new(),
            max_pod_grace: Duration::ZERO,
            pods_enforced: true,
        })
    }
}

impl KubeletEviction {
    /// Reads a kubelet's configuration file. Its flags and its directory of drop-in files are not known here.
    ///
    /// # Errors
    /// The file cannot be read, or its thresholds cannot be understood.
    pub fn read(path: &Path) -> Result<Self, KubeletConfigError> {
        let at = || path.to_owned();
        let text =
            fs::read_to_string(path).map_err(|source| KubeletConfigError::Read { path: at(), source })?;
        let map: Option<Mapping> = serde_yaml_ng::from_str(&text)
            .map_err(|source| KubeletConfigError::Yaml { path: at(), source })?;
        of_mapping(&map.unwrap_or_default())
            .map_err(|problem| KubeletConfigError::Threshold { path: at(), problem: Box::new(problem) })
    }

    /// The thresholds somewhat before these. Those of memory are before them by `margin` bytes or a tenth,
    /// whichever is more, those of process ids by a tenth; those of disks are the same. `memory` is that of
    /// the machine in bytes, by which percentages of it are amounts.
    pub fn ahead(&self, margin: u64, memory: u64) -> Vec<EvictionThreshold> {
        let own = self.thresholds.iter();
        let mut all: Vec<_> =
            own.map(|one| EvictionThreshold { value: before(one, margin, memory), ..one.clone() }).collect();
        if self.pods_enforced {
            let doubled = all.iter().filter(|one| threshold::is_doubled(one));
            let doubled: Vec<_> = doubled
                .map(|one| EvictionThreshold { signal: Signal::AllocatableMemoryAvailable, ..one.clone() })
                .collect();
            all.extend(doubled);
        }
        all
    }
}

fn before(one: &EvictionThreshold, margin: u64, memory: u64) -> Threshold {
    match (one.signal, &one.value) {
        (Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable, value) => {
            let bytes = match value {
                Threshold::Quantity(amount) => u64::try_from(amount.value()).unwrap_or(0),
                Threshold::Fraction(part) => (memory as f64 * part) as u64,
            };
            let bytes = bytes.saturating_add(margin.max(bytes / 10));
            Threshold::Quantity(Quantity::from_bytes(i64::try_from(bytes).unwrap_or(i64::MAX)))
        }
        (Signal::PidAvailable, Threshold::Quantity(amount)) => {
            let ids = amount.value();
            Threshold::Quantity(Quantity::from_whole(ids.saturating_add(ids / 10)))
        }
        (Signal::PidAvailable, Threshold::Fraction(part)) => {
            Threshold::Fraction(f64::from((part * 1.1).min(1.0) as f32))
        }
        (_, value) => value.clone(),
    }
}

/// Reads the keys as a kubelet does: without `mergeDefaultEvictionSettings`, thresholds that are given
/// replace the defaults.
fn of_mapping(map: &Mapping) -> Result<KubeletEviction, Problem> {
    let texts = |key: &str| {
        let own = map.get(key).and_then(Value::as_mapping);
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        own.map(|own| {
            own.iter().filter_map(|(key, value)| Some((key.as_str()?.to_owned(), text(value)?))).collect()
        })
    };
    let merges = map.get("mergeDefaultEvictionSettings").and_then(Value::as_bool).unwrap_or(false);
    let hard = match texts("evictionHard") {
        None => eviction::defaults(),
        Some(given) if merges => eviction::defaults().into_iter().chain(given).collect(),
        Some(given) => given,
    };
    let all = EvictionTexts {
        hard,
        soft: texts("evictionSoft").unwrap_or_default(),
        soft_grace: texts("evictionSoftGracePeriod").unwrap_or_default(),
        minimum_reclaim: texts("evictionMinimumReclaim").unwrap_or_default(),
    };
    let thresholds = threshold::parse(&all, false).map_err(|mut problems| problems.swap_remove(0))?;
    let grace = map.get("evictionMaxPodGracePeriod").and_then(Value::as_i64).unwrap_or(0);
    let enforced = map.get("enforceNodeAllocatable").and_then(Value::as_sequence);
    Ok(KubeletEviction {
        thresholds,
        max_pod_grace: u64::try_from(grace).map_or(Duration::MAX, Duration::from_secs),
        pods_enforced: enforced.is_none_or(|own| own.iter().any(|level| level == "pods")),
    })
}

#[cfg(test)]
mod tests;
