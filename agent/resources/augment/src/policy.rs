//! What a pod asks for in its annotations `nodewarden.io/…`.

use std::collections::BTreeMap;

use nodewarden_manifest::Quantity;

/// Begins the annotations that are read here.
pub const PREFIX: &str = "nodewarden.io/";

/// What a pod asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// `nodewarden.io/augment: "off"`: nothing of the pod is written.
    pub opted_out: bool,
    /// `nodewarden.io/latency-sensitive: "true"`: it is neither throttled nor made idle.
    pub latency_sensitive: bool,
    /// `nodewarden.io/memory-high`: `"off"`, or a limit that it always has.
    pub memory_high: MemoryHigh,
    /// `nodewarden.io/cpu-burst`: percent of its quota, 0 for `"off"`; `None` for the node's.
    pub cpu_burst: Option<u64>,
}

/// What is done with `memory.high` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryHigh {
    /// Set while memory is short and the pod is above its requests.
    Node,
    /// Never set.
    Off,
    /// Always this many bytes.
    Fixed(u64),
}

impl MemoryHigh {
    /// Whether the pod itself says how many bytes.
    pub fn is_fixed(self) -> bool {
        matches!(self, Self::Fixed(_))
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self { opted_out: false, latency_sensitive: false, memory_high: MemoryHigh::Node, cpu_burst: None }
    }
}

/// The smallest fixed `memory.high`: below it a pod would hardly run.
const LEAST: u64 = 4 << 20;

/// Reads the annotations, and says what is wrong with them. What cannot be understood opts the pod out: it
/// asked for something, and it is not known what.
pub fn read(annotations: &BTreeMap<String, String>) -> (Policy, Vec<String>) {
    let (mut policy, mut problems) = (Policy::default(), Vec::new());
    for (key, value) in annotations {
        let Some(name) = key.strip_prefix(PREFIX) else { continue };
        let expected = match name {
            "augment" => set(&mut policy.opted_out, value, "off", "on").then_some(()).ok_or("on or off"),
            "latency-sensitive" => set(&mut policy.latency_sensitive, value, "true", "false")
                .then_some(())
                .ok_or("true or false"),
            "memory-high" => match memory_high(value) {
                Some(found) => {
                    policy.memory_high = found;
                    Ok(())
                }
                None => Err("off or an amount of memory from 4Mi up"),
            },
            "cpu-burst" => match percent(value) {
                Some(found) => {
                    policy.cpu_burst = Some(found);
                    Ok(())
                }
                None => Err("off or a percentage from 1% to 100%"),
            },
            _ => Err("one of augment, cpu-burst, latency-sensitive and memory-high"),
        };
        if let Err(expected) = expected {
            problems.push(format!(
                "annotation {key}: {value:?}: expected {expected}; nothing is set for this pod"
            ));
        }
    }
    policy.opted_out |= !problems.is_empty();
    (policy, problems)
}

/// Sets a switch by one of two words.
fn set(switch: &mut bool, value: &str, yes: &str, no: &str) -> bool {
    *switch = value == yes;
    value == yes || value == no
}

fn memory_high(value: &str) -> Option<MemoryHigh> {
    if value == "off" {
        return Some(MemoryHigh::Off);
    }
    let bytes = u64::try_from(value.parse::<Quantity>().ok()?.value()).ok()?;
    (bytes >= LEAST).then_some(MemoryHigh::Fixed(bytes))
}

fn percent(value: &str) -> Option<u64> {
    if value == "off" {
        return Some(0);
    }
    let percent = value.strip_suffix('%')?.parse().ok()?;
    (1..=100).contains(&percent).then_some(percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[(&str, &str)]) -> (Policy, Vec<String>) {
        read(&all.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    #[test]
    fn each_annotation() {
        let node = Policy::default();
        assert_eq!(of(&[("app", "web"), ("prometheus.io/scrape", "true")]), (node, vec![]));
        for (key, value, policy) in [
            ("augment", "off", Policy { opted_out: true, ..node }),
            ("augment", "on", node),
            ("latency-sensitive", "true", Policy { latency_sensitive: true, ..node }),
            ("memory-high", "off", Policy { memory_high: MemoryHigh::Off, ..node }),
            ("memory-high", "64Mi", Policy { memory_high: MemoryHigh::Fixed(64 << 20), ..node }),
            ("cpu-burst", "off", Policy { cpu_burst: Some(0), ..node }),
            ("cpu-burst", "20%", Policy { cpu_burst: Some(20), ..node }),
        ] {
            assert_eq!(of(&[(&format!("nodewarden.io/{key}"), value)]), (policy, vec![]), "{key}: {value}");
        }
    }

    #[test]
    fn a_pod_whose_annotations_are_not_understood_is_left_alone() {
        for (key, value) in [
            ("augment", "no"),
            ("latency-sensitive", "1"),
            ("memory-high", "64 MB"),
            ("memory-high", "1Mi"),
            ("memory-high", "-64Mi"),
            ("cpu-burst", "20"),
            ("cpu-burst", "101%"),
            ("oom-policy", "group"),
        ] {
            let (policy, problems) = of(&[(&format!("nodewarden.io/{key}"), value), ("app", "web")]);
            assert!(policy.opted_out, "{key}: {value}");
            assert!(
                matches!(&problems[..], [one] if one.contains(key) && one.contains("expected")),
                "{problems:?}"
            );
        }
    }
}
