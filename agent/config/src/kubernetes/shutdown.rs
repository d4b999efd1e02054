//! Graceful node shutdown: `shutdownGracePeriod`, `shutdownGracePeriodCriticalPods`,
//! `shutdownGracePeriodByPodPriority` (KEP-2000, KEP-2712).

use std::time::Duration;

use nodewarden_manifest::SYSTEM_CRITICAL_PRIORITY;
use serde_yaml_ng::{Mapping, Value};

use crate::duration;
use crate::fields::{Fields, shown};
use crate::shape::Shape;
use crate::show::{Map, pair};

const TOTAL: &str = "shutdownGracePeriod";
const CRITICAL: &str = "shutdownGracePeriodCriticalPods";
const BY_PRIORITY: &str = "shutdownGracePeriodByPodPriority";
const FIELDS: &[(&str, Shape)] = &[
    ("priority", Shape::Integer { least: i32::MIN as i64, most: i32::MAX as i64 }),
    ("shutdownGracePeriodSeconds", Shape::Integer { least: 0, most: i64::MAX }),
];
const GROUP: Shape = Shape::Keys(FIELDS);

/// How pods are ended when the machine shuts down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShutdownSettings {
    /// `shutdownGracePeriod`: how long the shutdown is delayed at most; zero: not at all.
    pub total: Duration,
    /// `shutdownGracePeriodCriticalPods`: the part of it that is for critical pods, which are ended last.
    pub critical: Duration,
    /// `shutdownGracePeriodByPodPriority`, by ascending priority; replaces the two above.
    pub by_priority: Vec<PriorityGrace>,
}

/// The time that pods of a priority class and above, up to the next entry, have to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PriorityGrace {
    /// The lowest priority.
    pub priority: i32,
    /// Their time.
    pub grace: Duration,
}

impl ShutdownSettings {
    /// The groups by ascending priority, which is the order in which they end; empty if shutdowns are not
    /// delayed (migrateConfig of pkg/kubelet/nodeshutdown: the two simple keys are priorities 0 and
    /// 2000000000, and their groups have whole seconds).
    pub fn groups(&self) -> Vec<PriorityGrace> {
        if !self.by_priority.is_empty() {
            return self.by_priority.clone();
        }
        if self.total.is_zero() || self.critical > self.total {
            return Vec::new();
        }
        let whole = |time: Duration| Duration::from_secs(time.as_secs());
        let regular = PriorityGrace { priority: 0, grace: whole(self.total - self.critical) };
        let critical = PriorityGrace { priority: SYSTEM_CRITICAL_PRIORITY, grace: whole(self.critical) };
        vec![regular, critical]
    }

    /// How long the shutdown is delayed at most.
    pub fn longest(&self) -> Duration {
        self.groups().iter().map(|group| group.grace).sum()
    }
}

pub(super) fn take(top: &mut Fields<'_>) -> ShutdownSettings {
    let total = top.duration(TOTAL).unwrap_or_default();
    let critical = top.duration(CRITICAL).unwrap_or_default();
    let least = Duration::from_secs(1);
    for (key, time) in [(TOTAL, total), (CRITICAL, critical)] {
        if !time.is_zero() && time < least {
            top.refuse(key, &duration::show(time), "0s or at least 1s");
        }
    }
    if critical > total {
        top.refuse(CRITICAL, &duration::show(critical), &format!("at most {TOTAL}"));
    }
    let by_priority = by_priority(top);
    let has_total = !total.is_zero() || !critical.is_zero();
    if !by_priority.is_empty() && has_total {
        top.refuse(BY_PRIORITY, "a list", &format!("nothing, because {TOTAL} is set"));
    }
    ShutdownSettings { total, critical, by_priority }
}

fn by_priority(top: &mut Fields<'_>) -> Vec<PriorityGrace> {
    let list = top.list(BY_PRIORITY, &GROUP, "a list");
    let mut groups: Vec<PriorityGrace> = Vec::new();
    for (i, entry) in list.iter().enumerate() {
        let field = format!("{BY_PRIORITY}[{i}]");
        match group(entry) {
            None => top.refuse(
                &field,
                &shown(entry),
                "priority and shutdownGracePeriodSeconds, which are whole numbers",
            ),
            Some(group) if groups.iter().any(|known| known.priority == group.priority) => {
                top.refuse(&field, &group.priority.to_string(), "each priority once");
            }
            Some(group) => groups.push(group),
        }
    }
    groups.sort_unstable_by_key(|group| group.priority);
    groups
}

fn group(value: &Value) -> Option<PriorityGrace> {
    let map = value.as_mapping()?;
    if map.keys().any(|key| !FIELDS.iter().any(|(known, _)| key == known)) {
        return None;
    }
    let number = |key: &str| match map.get(key) {
        None | Some(Value::Null) => Some(0),
        Some(value) => value.as_i64(),
    };
    let seconds = u64::try_from(number("shutdownGracePeriodSeconds")?).ok()?;
    Some(PriorityGrace {
        priority: i32::try_from(number("priority")?).ok()?,
        grace: Duration::from_secs(seconds.min(u64::from(u32::MAX))),
    })
}

pub(super) fn show(top: &mut Map, settings: &ShutdownSettings) {
    top.put(TOTAL, duration::show(settings.total));
    top.put(CRITICAL, duration::show(settings.critical));
    let groups: Vec<Value> = settings
        .by_priority
        .iter()
        .map(|group| {
            Mapping::from_iter([
                pair("priority", group.priority),
                pair("shutdownGracePeriodSeconds", group.grace.as_secs()),
            ])
            .into()
        })
        .collect();
    top.put_some(BY_PRIORITY, (!groups.is_empty()).then_some(groups));
}

#[cfg(test)]
mod golden {
    use nodewarden_testing::golden;

    use super::*;

    /// A number of milliseconds; `None` for one below zero, which the configuration's parser refuses.
    fn millis(case: &serde_json::Value, key: &str) -> Option<Duration> {
        case[key].as_i64().and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis)
    }

    #[test]
    fn the_two_simple_keys_become_the_kubelets_groups() {
        let Some(recording) = golden::load("resource_managers/shutdown.json") else { return };
        let cases = recording["migrate_cases"].as_array().unwrap();
        assert!(!cases.is_empty());
        for case in cases {
            let expected: Vec<PriorityGrace> =
                case["by_priority"].as_array().map_or_else(Vec::new, |groups| {
                    let group = |group: &serde_json::Value| PriorityGrace {
                        priority: i32::try_from(group["priority"].as_i64().unwrap()).unwrap(),
                        grace: Duration::from_secs(group["seconds"].as_u64().unwrap()),
                    };
                    groups.iter().map(group).collect()
                });
            let total = millis(case, "shutdown_grace_period_ms");
            let critical = millis(case, "shutdown_grace_period_critical_pods_ms");
            let found = match (total, critical) {
                (Some(total), Some(critical)) => {
                    ShutdownSettings { total, critical, by_priority: Vec::new() }.groups()
                }
                _ => Vec::new(),
            };
            assert_eq!(found, expected, "{case}");
        }
    }
}
