//! Which pods end together. Pure.

use std::time::Duration;

use nodewarden_config::PriorityGrace;

/// Pods that end together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// How long they have.
    pub grace: Duration,
    /// Their uids.
    pub pods: Vec<String>,
}

/// The pods of each group, in the order in which they end: a pod belongs to the group with the highest
/// priority that is not above its own, or to the first (kubelet `groupByPriority`). Groups without a pod are
/// left out; those of one without time are killed.
pub fn groups(settings: &[PriorityGrace], pods: Vec<(String, i32)>) -> Vec<Group> {
    let mut found: Vec<Group> =
        settings.iter().map(|own| Group { grace: own.grace, pods: Vec::new() }).collect();
    for (uid, priority) in pods {
        let index = settings.iter().rposition(|own| own.priority <= priority).unwrap_or(0);
        if let Some(group) = found.get_mut(index) {
            group.pods.push(uid);
        }
    }
    found.retain(|group| !group.pods.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_end_by_ascending_priority() {
        let seconds = Duration::from_secs;
        let group = |priority, grace| PriorityGrace { priority, grace: seconds(grace) };
        let settings = [group(0, 20), group(1000, 0), group(2_000_000_000, 10)];
        let pods = [("a", 2_000_001_000), ("b", 5), ("c", -7), ("d", 1500), ("e", 2_000_000_000)];
        let pods = pods.map(|(uid, priority)| (uid.to_owned(), priority)).to_vec();
        let of = |grace, pods: &[&str]| Group {
            grace: seconds(grace),
            pods: pods.iter().map(|uid| (*uid).to_owned()).collect(),
        };
        assert_eq!(groups(&settings, pods), [of(20, &["b", "c"]), of(0, &["d"]), of(10, &["a", "e"])]);
        assert!(groups(&[], vec![("a".to_owned(), 1)]).is_empty());
    }
}

#[cfg(test)]
mod golden {
    use nodewarden_config::ShutdownSettings;
    use nodewarden_testing::golden;
    use serde_json::Value;

    use super::*;

    fn seconds(value: &Value) -> Duration {
        Duration::from_secs(value.as_u64().unwrap())
    }

    fn priority(value: &Value) -> i32 {
        i32::try_from(value.as_i64().unwrap()).unwrap()
    }

    fn list(value: &Value) -> &[Value] {
        value.as_array().map_or(&[], Vec::as_slice)
    }

    fn priorities(value: &Value) -> Vec<PriorityGrace> {
        let entry = |entry: &Value| PriorityGrace {
            priority: priority(&entry["priority"]),
            grace: seconds(&entry["seconds"]),
        };
        list(value).iter().map(entry).collect()
    }

    /// The settings of a case. Without the feature gate a kubelet does not look at the list; the agent has no
    /// such gate.
    fn settings(case: &Value) -> ShutdownSettings {
        let config = &case["config"];
        let has_list = case["feature_gates"]["GracefulNodeShutdownBasedOnPodPriority"] == true;
        let mut by_priority = match has_list {
            true => priorities(&config["shutdown_grace_period_by_pod_priority"]),
            false => Vec::new(),
        };
        // As the configuration's parser leaves it.
        by_priority.sort_by_key(|entry| entry.priority);
        ShutdownSettings {
            total: seconds(&config["shutdown_grace_period_s"]),
            critical: seconds(&config["shutdown_grace_period_critical_pods_s"]),
            by_priority,
        }
    }

    #[test]
    fn pods_end_in_the_kubelets_groups() {
        let Some(recording) = golden::load("resource_managers/shutdown.json") else { return };
        let cases = list(&recording["cases"]);
        assert!(!cases.is_empty());
        for case in cases {
            let settings = settings(case);
            assert_eq!(settings.groups(), priorities(&case["by_priority_used"]), "{case}");
            assert_eq!(settings.longest(), seconds(&case["period_requested_s"]), "{case}");
            let pod = |pod: &Value| {
                let given = pod.get("priority").map_or(0, priority);
                (pod["uid"].as_str().unwrap().to_owned(), given)
            };
            let expected: Vec<Group> = list(&case["groups"])
                .iter()
                .filter(|group| !list(&group["pods"]).is_empty())
                .map(|group| Group {
                    grace: seconds(&group["seconds"]),
                    pods: list(&group["pods"]).iter().map(|uid| uid.as_str().unwrap().to_owned()).collect(),
                })
                .collect();
            let pods = list(&case["pods"]).iter().map(pod).collect();
            assert_eq!(groups(&settings.groups(), pods), expected, "{case}");
        }
    }
}
