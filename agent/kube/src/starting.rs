//! Answers of an API server that is still starting.
//!
//! Before version 1.23 it answers 404 in plain text for paths that it does not serve yet, also for objects
//! that are there (kubernetes/kubernetes#104748; newer ones answer 503). That an object is not there is said
//! by a `Status` in JSON. What stands between, such as a proxy, answers in the same way.

use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};

/// Makes "service unavailable" of "not found" that says nothing about an object.
pub fn correct<B>(mut answer: Response<B>) -> Response<B> {
    if answer.status() == StatusCode::NOT_FOUND && !is_json(&answer) {
        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    answer
}

fn is_json<B>(answer: &Response<B>) -> bool {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_status_says_that_an_object_is_not_there() {
        for (code, kind, expected) in [
            (404, Some("application/json"), 404),
            (404, Some("application/json; charset=utf-8"), 404),
            (404, Some("text/plain; charset=utf-8"), 503),
            (404, None, 503),
            (403, Some("text/plain"), 403),
            (200, None, 200),
        ] {
            let mut answer = Response::builder().status(code);
            if let Some(kind) = kind {
                answer = answer.header(CONTENT_TYPE, kind);
            }
            assert_eq!(correct(answer.body(()).unwrap()).status(), expected, "{code} {kind:?}");
        }
    }
}
