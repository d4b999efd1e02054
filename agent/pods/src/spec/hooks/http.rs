//! What an `httpGet` hook makes of its request (kubelet `runHTTPHandler`).

use tracing::warn;

use crate::http_get;
use crate::http_get::{Fault, HttpError, Purpose, Response};
use nodewarden_manifest::{HttpGetAction, Scheme};

/// Asks, and takes whatever answer. A server that is asked over TLS and answers without is asked without, then without
/// what the manifest shows it in confidence.
pub(super) async fn get(asked: &HttpGetAction, host: &str) -> Result<(), HttpError> {
    let error = match answered(http_get::get(asked, host, Purpose::Hook).await) {
        Err(error) if asked.scheme == Scheme::Https && matches!(error.fault, Fault::PlainAnswer) => error,
        done => return done,
    };
    let mut headers = asked.headers.clone();
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
    let plain = HttpGetAction { scheme: Scheme::Http, headers, ..asked.clone() };
    match answered(http_get::get(&plain, host, Purpose::Hook).await) {
        Ok(()) => {
            warn!(
                url = error.url,
                "the https hook got an HTTP response; asked again with HTTP, it succeeded"
            );
            Ok(())
        }
        Err(_) => Err(error),
    }
}

/// The answer counts, however much of its body came.
fn answered(result: Result<Response, HttpError>) -> Result<(), HttpError> {
    match result {
        Err(error) if !matches!(error.fault, Fault::Body(_)) => Err(error),
        _ => Ok(()),
    }
}
