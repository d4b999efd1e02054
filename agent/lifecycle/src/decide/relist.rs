//! When the runtime is asked for everything that it has. The kernel's records and the runtime's events say what happens;
//! the list is for what neither of them said.

use std::time::Duration;

/// Longest time between two lists while nothing is in doubt.
pub const REGULAR: Duration = Duration::from_secs(60);

/// What is known about what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Certainty {
    /// The runtime's stream of events is open.
    pub hears: bool,
    /// The runtime answered the last list.
    pub answered: bool,
    /// Something was lost, contradicts another thing, or was found without an owner.
    pub doubted: bool,
}

/// Whether the runtime is to be asked now. `since`: the start of the last list, `None` before the first.
pub fn is_due(certainty: Certainty, since: Option<Duration>) -> bool {
    let Certainty { hears, answered, doubted } = certainty;
    !hears || !answered || doubted || since.is_none_or(|since| since >= REGULAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_asked_each_minute_and_whenever_something_is_in_doubt() {
        let certain = Certainty { hears: true, answered: true, doubted: false };
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (certainty, since, due) in [
            (certain, seconds(2), false),
            (certain, seconds(59), false),
            (certain, seconds(60), true),
            (certain, None, true),
            (Certainty { hears: false, ..certain }, seconds(2), true),
            (Certainty { answered: false, ..certain }, seconds(2), true),
            (Certainty { doubted: true, ..certain }, seconds(2), true),
        ] {
            assert_eq!(is_due(certainty, since), due, "{certainty:?} {since:?}");
        }
    }
}
