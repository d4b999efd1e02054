//! Lifecycle hooks of kind `httpGet` (kubelet `runHTTPHandler`).

use tracing::warn;

use crate::http_get;
use crate::http_get::{Fault, HttpError, Purpose, Response};
use nodewarden_manifest::{HttpGetAction, Scheme};

/// Sends the request; every response is a success. If a server responds to an HTTPS request in plain HTTP,
/// the request is sent again over HTTP, without the `Authorization` header of the manifest.
pub(super) async fn get(action: &HttpGetAction, host: &str) -> Result<(), HttpError> {
    let error = match answered(http_get::get(action, host, Purpose::Hook).await) {
        Err(error) if action.scheme == Scheme::Https && matches!(error.fault, Fault::PlainAnswer) => error,
        done => return done,
    };
    let mut headers = action.headers.clone();
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
    let plain = HttpGetAction { scheme: Scheme::Http, headers, ..action.clone() };
    match answered(http_get::get(&plain, host, Purpose::Hook).await) {
        Ok(()) => {
            warn!(
                url = error.url,
                "the https hook got an HTTP response; the request was repeated with HTTP and succeeded"
            );
            Ok(())
        }
        Err(_) => Err(error),
    }
}

/// A response is a success even if its body is incomplete.
fn answered(result: Result<Response, HttpError>) -> Result<(), HttpError> {
    match result {
        Err(error) if !matches!(error.fault, Fault::Body(_)) => Err(error),
        _ => Ok(()),
    }
}
