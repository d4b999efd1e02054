//! When to list everything that the runtime has. The kernel's records and the runtime's events report what
//! changes; the list finds what both have lost.

use std::time::Duration;

/// The longest time between two lists.
pub const REGULAR: Duration = Duration::from_secs(60);
/// How long the end of a process that may have been a container's first one keeps the runtime in doubt.
pub const PERHAPS: Duration = Duration::from_secs(10);

/// What is in doubt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Doubts {
    /// The kernel does not report every process that ends.
    pub ends_unreported: bool,
    /// The runtime's stream of events is not open.
    pub not_subscribed: bool,
    /// The runtime did not answer the last list.
    pub not_answered: bool,
    /// Events were lost, or something may be left of a pod that ended.
    pub lost: bool,
    /// The kernel and the runtime say different things.
    pub contradicted: bool,
    /// The last list had something without an owner.
    pub unowned: bool,
    /// Devices or CPUs of an earlier agent are freed by what the runtime has.
    pub recovering: bool,
}

/// Why to list now; `None` if not. `since`: time since the start of the last list, `None` before the first.
pub fn reason(doubts: Doubts, since: Option<Duration>) -> Option<&'static str> {
    let reasons = [
        (since.is_none(), "the first list"),
        (doubts.ends_unreported, "the kernel reports no ends of processes"),
        (doubts.not_subscribed, "the runtime sends no events"),
        (doubts.not_answered, "the runtime did not answer the last list"),
        (doubts.lost, "events were lost, or a pod has ended"),
        (doubts.contradicted, "the runtime says that a container runs whose process has ended"),
        (doubts.unowned, "the last list had something that no pod owns"),
        (doubts.recovering, "devices or CPUs of an earlier agent wait for it"),
        (since.is_some_and(|since| since >= REGULAR), "the last one is a minute old"),
    ];
    reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_listed_each_minute_and_while_something_is_in_doubt() {
        let none = Doubts::default();
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (doubts, since, due) in [
            (none, seconds(2), false),
            (none, seconds(59), false),
            (none, seconds(60), true),
            (none, None, true),
            (Doubts { ends_unreported: true, ..none }, seconds(2), true),
            (Doubts { not_subscribed: true, ..none }, seconds(2), true),
            (Doubts { not_answered: true, ..none }, seconds(2), true),
            (Doubts { lost: true, ..none }, seconds(2), true),
            (Doubts { contradicted: true, ..none }, seconds(2), true),
            (Doubts { unowned: true, ..none }, seconds(2), true),
            (Doubts { recovering: true, ..none }, seconds(2), true),
        ] {
            assert_eq!(reason(doubts, since).is_some(), due, "{doubts:?} {since:?}");
        }
    }
}
