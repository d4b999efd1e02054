//! Which pod is to be evicted, by the kubelet's rules and by what each pod truly uses. It is written apart
//! from the agent's ranking, so that a fault of one is not in the other.

use std::collections::BTreeSet;

/// A pod with what it uses of what is short.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub name: String,
    pub priority: i64,
    /// What it requests of that; 0 for what cannot be requested.
    pub request: u64,
    pub used: u64,
}

impl Subject {
    /// Of two pods the one with the smaller value is evicted first: one that is above its request, then one
    /// of lower priority, then the one that is further above its request.
    fn place(&self, ranks_requests: bool) -> (bool, i64, i128) {
        let above = i128::from(self.used) - i128::from(self.request);
        (ranks_requests && above <= 0, self.priority, -above)
    }
}

/// The name of the pod to evict. `ranks_requests` is false for processes, where only priority and number
/// count.
pub fn expected(subjects: &[Subject], ranks_requests: bool) -> Option<&str> {
    subjects.iter().min_by_key(|one| one.place(ranks_requests)).map(|one| one.name.as_str())
}

/// What one pod will do to cause the pressure.
#[derive(Debug, Clone, Copy)]
pub struct Growth {
    /// Which pod, as an index.
    pub of: usize,
    /// What it has taken in addition when the threshold is crossed, and in the end.
    pub at_threshold: u64,
    pub in_the_end: u64,
    /// By how much a figure may be wrong.
    pub margin: u64,
}

/// The victim of a pressure that is caused by this growth, if it is the same at every moment of it, whichever
/// figure is wrong by the margin, and if its end ends the pressure.
pub fn certain(subjects: &[Subject], ranks_requests: bool, growth: Growth) -> Option<String> {
    let mut found = BTreeSet::new();
    let mut least = u64::MAX;
    for more in [growth.at_threshold, growth.in_the_end] {
        let mut grown = subjects.to_vec();
        grown.get_mut(growth.of)?.used += more;
        for wrong in 0..grown.len() {
            for used in [
                grown[wrong].used.saturating_sub(growth.margin),
                grown[wrong].used,
                grown[wrong].used.saturating_add(growth.margin),
            ] {
                let mut seen = grown.clone();
                seen[wrong].used = used;
                found.insert(expected(&seen, ranks_requests)?.to_owned());
            }
        }
        least = found
            .first()
            .and_then(|name| grown.iter().find(|one| one.name == *name))
            .map_or(0, |one| one.used.min(least));
    }
    let beyond = growth.in_the_end.saturating_sub(growth.at_threshold);
    let one = found.pop_first().filter(|_| found.is_empty())?;
    (least > beyond + growth.margin).then_some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(name: &str, priority: i64, request: u64, used: u64) -> Subject {
        Subject { name: name.to_owned(), priority, request, used }
    }

    #[test]
    fn the_pod_furthest_above_its_request_is_expected_after_lower_priorities() {
        for (subjects, ranks_requests, name) in [
            (vec![subject("a", 0, 0, 10), subject("b", 0, 0, 20)], true, "b"),
            (vec![subject("a", 0, 0, 10), subject("b", 0, 15, 20)], true, "a"),
            (vec![subject("a", 100, 0, 90), subject("b", 0, 0, 1)], true, "b"),
            // Within its request a pod comes last, however low its priority is.
            (vec![subject("a", 100, 0, 90), subject("b", -5, 50, 50)], true, "a"),
            (vec![subject("a", 0, 0, 1), subject("b", -5, 50, 50)], false, "b"),
        ] {
            assert_eq!(expected(&subjects, ranks_requests), Some(name), "{subjects:?}");
        }
        assert_eq!(expected(&[], true), None);
    }

    #[test]
    fn a_victim_is_certain_only_with_a_distance_on_the_whole_way() {
        let growth = |of| Growth { of, at_threshold: 20, in_the_end: 30, margin: 5 };
        let two = |a, b| [subject("a", 0, 0, a), subject("b", 0, 0, b)];
        assert_eq!(certain(&two(50, 40), true, growth(0)).as_deref(), Some("a"));
        // Ahead from the threshold on, behind for a while, too near.
        assert_eq!(certain(&two(50, 40), true, growth(1)).as_deref(), Some("b"));
        assert_eq!(certain(&two(50, 25), true, growth(1)), None);
        assert_eq!(certain(&two(50, 33), true, growth(1)), None);
        // The other pod goes, if its end frees enough.
        assert_eq!(certain(&two(50, 10), true, growth(1)).as_deref(), Some("a"));
        let low = [subject("a", -5, 0, 12), subject("b", 0, 0, 10)];
        assert_eq!(certain(&low, true, growth(1)), None, "its end frees less than is missing");
    }
}
