//! When to list everything that the runtime has. The kernel's records and the runtime's events report what changes; the
//! list finds what both have lost.

use std::time::Duration;

/// The longest time between two lists.
pub const REGULAR: Duration = Duration::from_secs(60);
/// How long the end of a process that may have been a container's first one keeps the runtime in doubt.
pub const PERHAPS: Duration = Duration::from_secs(10);

/// How far what is known can be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Certainty {
    /// The kernel reports every process that ends.
    pub ends_reported: bool,
    /// The runtime's stream of events is open.
    pub subscribed: bool,
    /// The runtime answered the last list.
    pub answered: bool,
    /// Something was lost, contradicts another thing, or was found without an owner.
    pub doubted: bool,
}

/// Whether to list now. `since`: time since the start of the last list, `None` before the first.
pub fn is_due(certainty: Certainty, since: Option<Duration>) -> bool {
    let Certainty { ends_reported, subscribed, answered, doubted } = certainty;
    let certain = ends_reported && subscribed && answered && !doubted;
    !certain || since.is_none_or(|since| since >= REGULAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_listed_each_minute_and_while_something_is_in_doubt() {
        let certain = Certainty { ends_reported: true, subscribed: true, answered: true, doubted: false };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (certainty, since, due) in [
            (certain, seconds(2), false),
            (certain, seconds(59), false),
            (certain, seconds(60), true),
            (certain, None, true),
            (Certainty { ends_reported: false, ..certain }, seconds(2), true),
            (Certainty { subscribed: false, ..certain }, seconds(2), true),
            (Certainty { answered: false, ..certain }, seconds(2), true),
            (Certainty { doubted: true, ..certain }, seconds(2), true),
        ] {
            assert_eq!(is_due(certainty, since), due, "{certainty:?} {since:?}");
        }
    }
}
