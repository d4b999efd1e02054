//! Whether a pod's status has to be written.

/// What was written last, as digests ([`crate::known_pods::status_digest`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Of what was sent.
    pub own: u64,
    /// Of what the API server answered that it has now. It differs where the server does not know a field.
    pub answered: u64,
}

/// Whether a pod's status has to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// The API server has it.
    No,
    /// It differs.
    Now,
    /// The API server is known to have something else than what it answered. That may be older, for a watch
    /// comes later than an answer: it is looked at again when there was time for that.
    Later,
}

/// `own` is the digest of the status that the pod has, `known` of the one that the API server is known to
/// have, `sent` what was written last since the agent's start.
pub fn due(own: u64, known: u64, sent: Option<Sent>) -> Due {
    match sent {
        _ if own == known && sent.is_none_or(|sent| sent.own == own) => Due::No,
        Some(sent) if sent.own == own && sent.answered == known => Due::No,
        Some(sent) if sent.own == own => Due::Later,
        Some(_) | None => Due::Now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_when_it_differs_from_what_is_there() {
        let sent = |own, answered| Some(Sent { own, answered });
        for (own, known, sent, expected, why) in [
            (1, 1, None, Due::No, "after a start, the API server has it"),
            (1, 2, None, Due::Now, "after a start, it has another one"),
            (1, 1, sent(1, 1), Due::No, "the watch shows what was sent"),
            (1, 9, sent(1, 9), Due::No, "the server leaves out what it does not know"),
            (1, 2, sent(1, 1), Due::Later, "the watch is behind, or someone changed it"),
            (3, 1, sent(1, 1), Due::Now, "a new one"),
            (1, 1, sent(2, 2), Due::Now, "back to an earlier one, which the watch still shows"),
        ] {
            assert_eq!(due(own, known, sent), expected, "{why}");
        }
    }
}
