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

/// The pods of each group, in the order in which they end: a pod belongs to the group with the highest priority that is not
/// above its own, or to the first (kubelet `groupByPriority`). Groups without a pod are left out; those of one without
/// time are killed.
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
