//! When to list everything that the runtime has. The kernel's records and the runtime's events report what
//! changes; the list finds what both have lost.

use std::time::Duration;

/// The longest time between two looks: at a list of everything that the runtime has, or, where that is long,
/// at the pods' directories alone ([`interval`]).
pub const REGULAR: Duration = Duration::from_secs(60);
/// A task with the period [`REGULAR`] runs up to three seconds sooner (`nodewarden_tasks::pause`): a list is
/// due so much sooner than after its interval.
const SOONER: Duration = Duration::from_secs(10);
/// The time between two lists with [`MANY`] pods and more: a kubelet lists the runtime as often when it has a
/// stream of its events (kubelet: `eventedPlegRelistPeriod`). Garbage collection and the names of pods read
/// the same list then.
const LONG: Duration = Duration::from_secs(300);
/// A list of 500 pods with two containers each has a megabyte.
const MANY: usize = 500;
/// The longest time between two lists of a runtime that has no stream of events: a kubelet asks each runtime
/// as often whether it is ready (kubelet: `updateRuntimeUp`). Containers that end are known from the kernel.
pub const WITHOUT_EVENTS: Duration = Duration::from_secs(5);
/// How long the end of a process that may have been a container's first one keeps the runtime in doubt.
pub const PERHAPS: Duration = Duration::from_secs(10);

/// The runtime's stream of events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EventStream {
    /// Not open yet, or broken: it is opened again.
    #[default]
    Closed,
    /// The runtime reports what happens.
    Open,
    /// The runtime has none (containerd before 1.7).
    Unsupported,
}

/// What is in doubt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Doubts {
    /// The kernel does not report every process that ends.
    pub ends_unreported: bool,
    /// Whether the runtime reports what happens.
    pub events: EventStream,
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

impl Doubts {
    /// Whether the next list is due at once.
    pub fn any(&self) -> bool {
        let Self { ends_unreported, events, not_answered, lost, contradicted, unowned, recovering } = *self;
        let closed = events == EventStream::Closed;
        closed || ends_unreported || not_answered || lost || contradicted || unowned || recovering
    }
}

/// The longest time between two looks at what a node has on which nothing is in doubt.
pub fn quiet(events: EventStream) -> Duration {
    if events == EventStream::Unsupported { WITHOUT_EVENTS } else { REGULAR }
}

/// The time between two lists while nothing is in doubt, if the last one had so many pods.
fn interval(pods: usize) -> Duration {
    if pods < MANY { REGULAR } else { LONG }
}

/// The reason of a list that nothing but the time asks for. Other parts read the same one.
pub const OLD: &str = "the last one is old";

/// Why to list now; `None` if not. `since`: time since the start of the last list, `None` before the first;
/// `pods`: how many it had.
pub fn reason(doubts: Doubts, since: Option<Duration>, pods: usize) -> Option<&'static str> {
    let is_due = |after| since.is_some_and(|since| since >= after);
    let reasons = [
        (since.is_none(), "the first list"),
        (doubts.ends_unreported, "the kernel reports no ends of processes"),
        (doubts.events == EventStream::Closed, "the runtime's stream of events is not open"),
        (doubts.not_answered, "the runtime did not answer the last list"),
        (doubts.lost, "events were lost, or a pod has ended"),
        (doubts.contradicted, "the runtime says that a container runs whose process has ended"),
        (doubts.unowned, "the last list had something that no pod owns"),
        (doubts.recovering, "devices or CPUs of an earlier agent wait for it"),
        (
            doubts.events == EventStream::Unsupported && is_due(WITHOUT_EVENTS),
            "the runtime has no stream of events",
        ),
        (is_due(interval(pods) - SOONER), OLD),
    ];
    reasons.into_iter().find_map(|(holds, reason)| holds.then_some(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_listed_each_minute_and_while_something_is_in_doubt() {
        let none = Doubts { events: EventStream::Open, ..Doubts::default() };
        let without_events = Doubts { events: EventStream::Unsupported, ..none };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (doubts, since, due) in [
            (none, seconds(2), false),
            (none, seconds(49), false),
            (none, seconds(50), true),
            (none, None, true),
            (Doubts { ends_unreported: true, ..none }, seconds(2), true),
            (Doubts { events: EventStream::Closed, ..none }, seconds(2), true),
            (without_events, seconds(4), false),
            (without_events, seconds(5), true),
            (Doubts { contradicted: true, ..without_events }, seconds(2), true),
            (Doubts { not_answered: true, ..none }, seconds(2), true),
            (Doubts { lost: true, ..none }, seconds(2), true),
            (Doubts { contradicted: true, ..none }, seconds(2), true),
            (Doubts { unowned: true, ..none }, seconds(2), true),
            (Doubts { recovering: true, ..none }, seconds(2), true),
        ] {
            assert_eq!(reason(doubts, since, 9).is_some(), due, "{doubts:?} {since:?}");
            let at_once = due && since.is_some_and(|since| since < WITHOUT_EVENTS);
            assert_eq!(doubts.any(), at_once, "{doubts:?}");
            // While something is in doubt no list is shared with other parts.
            let is_regular = reason(doubts, since, 9) == Some(OLD);
            assert_eq!(is_regular, doubts == none && since == seconds(50), "{doubts:?} {since:?}");
            let late = reason(doubts, seconds(50), 9);
            assert_eq!(late == Some(OLD), doubts == none, "{doubts:?}");
        }
    }

    #[test]
    fn a_long_list_is_asked_for_less_often() {
        let none = Doubts { events: EventStream::Open, ..Doubts::default() };
        for (pods, minutes) in [(0, 1), (499, 1), (500, 5), (usize::MAX, 5)] {
            let is_due = |seconds| reason(none, Some(Duration::from_secs(seconds)), pods).is_some();
            assert!(!is_due(minutes * 60 - 11) && is_due(minutes * 60 - 10), "{pods}");
            let lost = Doubts { lost: true, ..none };
            assert!(reason(lost, Some(Duration::from_secs(1)), pods).is_some(), "at once in doubt");
        }
    }
}
