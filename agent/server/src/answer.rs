//! The answers of the server that are no stream.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nodewarden_metrics::Own;

/// A text, as errors are in a kubelet.
pub fn text(status: StatusCode, text: impl Into<String>) -> Response {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text.into()).into_response()
}

/// An object in JSON.
pub fn json(bytes: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], bytes.into()).into_response()
}

/// The method is not one of `allowed`.
pub fn other_method(allowed: &'static str) -> Response {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Counts an answer, by the first part of its path.
pub fn count(path: &'static str, status: StatusCode) {
    let code = status.as_u16().to_string();
    ::metrics::counter!(Own::HttpRequests.name(), "path" => path, "code" => code).increment(1);
}
