//! What the answer to a patch means.

use std::time::Duration;

use kube::Error;

/// What follows from the answer to a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The API server has the status; the digest of the one that it has.
    Written(u64),
    /// The pod is not there, or another one of its name is.
    Gone,
    /// The API server refuses it, or has too much to do: again after a while, this one if it says so.
    Refused(Option<Duration>),
    /// No answer: the API server, or the way to it, is down.
    Away,
}

/// What an error means.
pub fn of_error(error: &Error) -> Answer {
    match error {
        Error::Api(status) => {
            let after =
                status.details.as_ref().map(|details| details.retry_after_seconds).filter(|after| *after > 0);
            of_code(status.code, after.map(|seconds| Duration::from_secs(u64::from(seconds))))
        }
        _ => Answer::Away,
    }
}

fn of_code(code: u16, after: Option<Duration>) -> Answer {
    match code {
        // A conflict is a uid that differs: nothing else is made a condition.
        404 | 409 => Answer::Gone,
        // The credentials are renewed, or the server, or what is before it, is about to be back.
        401 | 502 | 503 | 504 if after.is_none() => Answer::Away,
        _ => Answer::Refused(after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answers_meaning_by_its_code() {
        let after = Some(Duration::from_secs(3));
        for (code, wait, expected) in [
            (404, None, Answer::Gone),
            (409, None, Answer::Gone),
            (401, None, Answer::Away),
            (503, None, Answer::Away),
            (503, after, Answer::Refused(after)),
            (429, after, Answer::Refused(after)),
            (500, None, Answer::Refused(None)),
            (422, None, Answer::Refused(None)),
            (403, None, Answer::Refused(None)),
        ] {
            assert_eq!(of_code(code, wait), expected, "{code}");
        }
    }
}
