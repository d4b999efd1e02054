//! `evictionHard` with its defaults, and the keys around it.

use std::collections::BTreeMap;

use serde_yaml_ng::{Mapping, Value};

use crate::config::fields::Fields;
use crate::config::threshold::{self, EvictionTexts, Signal, Threshold};

const HARD: &str = "evictionHard";
const MERGE: &str = "mergeDefaultEvictionSettings";

/// The kubelet's defaults on Linux (pkg/kubelet/eviction/defaults_linux.go).
const DEFAULTS: [(Signal, &str); 4] = [
    (Signal::MemoryAvailable, "100Mi"),
    (Signal::NodeFsAvailable, "10%"),
    (Signal::NodeFsInodesFree, "5%"),
    (Signal::ImageFsAvailable, "15%"),
];

/// The default thresholds as a mapping of texts.
fn defaults() -> BTreeMap<String, String> {
    DEFAULTS.iter().map(|(signal, text)| (signal.name().to_owned(), (*text).to_owned())).collect()
}

/// The default thresholds, parsed.
pub fn default_hard() -> BTreeMap<String, Threshold> {
    let texts = EvictionTexts { hard: defaults(), ..EvictionTexts::default() };
    by_name(&texts)
}

/// Hard thresholds by the kubelet's name of their signal; what cannot be read is left out.
fn by_name(texts: &EvictionTexts) -> BTreeMap<String, Threshold> {
    let hard =
        threshold::parse(&EvictionTexts { hard: texts.hard.clone(), ..EvictionTexts::default() }, false);
    hard.unwrap_or_default().into_iter().map(|t| (t.signal.name().to_owned(), t.value)).collect()
}

/// The kubelet fills the defaults in before it lays drop-in files over its file, so that a signal in a drop-in file
/// replaces one default and not all of them.
pub fn fill_in_defaults(map: &mut Mapping) {
    let merge = map.get(MERGE).and_then(Value::as_bool).unwrap_or(false);
    match map.get_mut(HARD) {
        None | Some(Value::Null) => {
            let hard = defaults().into_iter().map(|(k, v)| (Value::from(k), Value::from(v))).collect();
            map.insert(HARD.into(), Value::Mapping(hard));
        }
        Some(Value::Mapping(hard)) if merge => {
            for (signal, text) in DEFAULTS {
                if !hard.contains_key(signal.name()) {
                    hard.insert(signal.name().into(), text.into());
                }
            }
        }
        Some(_) => {}
    }
}

/// Takes the eviction keys: hard thresholds count for what is allocatable. The soft ones are checked as the kubelet
/// checks them, and told to be `ignored`.
pub fn take(
    top: &mut Fields<'_>,
    pods_enforced: bool,
    ignored: &mut Vec<String>,
) -> BTreeMap<String, Threshold> {
    let given = top.text_map(HARD);
    let merge = top.flag(MERGE, false);
    let hard = match given {
        None => defaults(),
        Some(given) if merge => defaults().into_iter().chain(given).collect(),
        Some(given) => given,
    };
    let mut unused = |key| {
        let texts = top.text_map(key);
        if texts.is_some() {
            ignored.push(key.to_owned());
        }
        texts.unwrap_or_default()
    };
    let texts = EvictionTexts {
        hard,
        soft: unused("evictionSoft"),
        soft_grace: unused("evictionSoftGracePeriod"),
        minimum_reclaim: unused("evictionMinimumReclaim"),
    };
    if let Err(problems) = threshold::parse(&texts, pods_enforced) {
        top.refuse_all(problems);
    }
    by_name(&texts)
}
