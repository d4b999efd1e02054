//! Limits that changed although the pod's spec did not: pure.

use std::collections::BTreeMap;

/// A limit of a cgroup now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The cgroup's path.
    pub cgroup: String,
    /// The uid of its pod.
    pub pod: String,
    /// The container; empty for the pod's own cgroup.
    pub container: String,
    /// The file.
    pub file: &'static str,
    /// Which cgroup of that path.
    pub identity: u64,
    /// Its value; `None` for no limit.
    pub value: Option<u64>,
    /// What the spec says it should be: `Some(None)` for no limit, `None` where that cannot be said.
    pub by_spec: Option<Option<u64>>,
    /// What the spec says of resources, as one number.
    pub spec: u64,
    /// The cgroup may not have got its limits yet.
    pub is_new: bool,
}

/// A limit that somebody else changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// As it is now.
    pub now: Limit,
    /// What it was.
    pub before: Option<u64>,
}

/// The limits as they were read last.
#[derive(Debug, Clone, Default)]
pub struct LimitWatch {
    known: BTreeMap<(String, &'static str), Limit>,
}

impl LimitWatch {
    /// Takes a reading of all limits; returns those that changed without the spec. A kubelet that resizes a pod sets what
    /// the spec says, which may be long after the spec was changed.
    pub fn update(&mut self, now: Vec<Limit>) -> Vec<Changed> {
        let before = std::mem::take(&mut self.known);
        let mut changed = Vec::new();
        for limit in now {
            let key = (limit.cgroup.clone(), limit.file);
            if let Some(before) = before.get(&key).filter(|before| is_drift(before, &limit)) {
                changed.push(Changed { now: limit.clone(), before: before.value });
            }
            self.known.insert(key, limit);
        }
        changed
    }
}

fn is_drift(before: &Limit, now: &Limit) -> bool {
    let same = before.identity == now.identity && before.spec == now.spec && !before.is_new;
    let wanted = now.by_spec.is_some_and(|by_spec| by_spec == now.value);
    same && before.value != now.value && !wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(value: Option<u64>) -> Limit {
        Limit {
            cgroup: "/kubepods/podu/c".into(),
            pod: "u".into(),
            container: "web".into(),
            file: "memory.max",
            identity: 7,
            value,
            by_spec: Some(Some(100)),
            spec: 1,
            is_new: false,
        }
    }

    #[test]
    fn only_what_neither_the_spec_nor_a_new_cgroup_explains_is_a_change_by_others() {
        let of = |before: Limit, now: Limit| {
            let mut watch = LimitWatch::default();
            assert_eq!(watch.update(vec![before]), []);
            watch.update(vec![now]).len()
        };
        let own = || limit(Some(100));
        assert_eq!(of(own(), own()), 0);
        assert_eq!(of(own(), limit(Some(200))), 1);
        assert_eq!(of(own(), limit(None)), 1);
        assert_eq!(of(limit(Some(200)), own()), 0, "as the spec says");
        assert_eq!(of(own(), Limit { identity: 8, ..limit(None) }), 0, "another cgroup");
        assert_eq!(of(own(), Limit { spec: 2, ..limit(Some(200)) }), 0, "a resize");
        assert_eq!(of(Limit { is_new: true, ..limit(None) }, limit(Some(90))), 0, "it is just being made");
        assert_eq!(of(own(), Limit { by_spec: None, ..limit(Some(200)) }), 1);
    }

    #[test]
    fn a_change_is_reported_once_and_back_again_is_none() {
        let mut watch = LimitWatch::default();
        let counts: Vec<usize> = [Some(100), Some(200), Some(200), Some(100), None]
            .map(|value| watch.update(vec![limit(value)]).len())
            .to_vec();
        assert_eq!(counts, [0, 1, 0, 0, 1]);
        assert_eq!(watch.update(Vec::new()), []);
    }
}
