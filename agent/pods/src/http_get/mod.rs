//! One HTTP or HTTPS GET as the kubelet makes it (pkg/probe/http), for hooks and probes.
//!
//! - [`HttpGetAction`]: what a manifest asks for. [`get`]: asks it, and follows where the same host sends it on.
//!
//! HTTP/1.1, and HTTP/2 where a TLS server chooses it; certificates are not verified, no proxy is used, no connection
//! is kept, and none is left in TIME_WAIT. Everything runs in the caller's future: dropped, it takes its connection
//! with it.

mod beside;
mod error;
mod exchange;
mod purpose;
mod request;
mod socket;
#[cfg(test)]
mod tests;
mod tls;
mod url;

pub(crate) use beside::Beside;
pub use error::{Fault, HttpError};
pub use purpose::Purpose;
pub(crate) use socket::dial;

use nodewarden_manifest::HttpGetAction;
#[cfg(test)]
use nodewarden_manifest::Scheme;

use exchange::{Exchanged, exchange};
use request::Headers;
use url::Url;

/// How many requests one is followed through (Go's client: "stopped after 10 redirects").
const MOST_REQUESTS: usize = 10;
/// How much of an answer is read, in bytes (kubelet `maxRespBodyLength`).
const LONGEST_BODY: usize = 10 << 10;

/// What a server answered in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Its begin, at most 10 KiB.
    pub body: Vec<u8>,
    /// The `Location` on another host that was not asked.
    pub foreign_redirect: Option<String>,
}

/// Asks `host`, whose address or name stands where the manifest names none. It has no time limit of its own.
///
/// Redirects within the host are followed, whatever their scheme and port (kubelet `RedirectChecker`); the answer that
/// sends to another host is the answer.
///
/// # Errors
/// There is no answer, or its body was cut short ([`Fault::Body`]).
pub async fn get(asked: &HttpGetAction, host: &str, purpose: Purpose) -> Result<Response, HttpError> {
    let mut url = Url::of(asked, host);
    let mut headers = Headers::of(asked, purpose);
    for _ in 0..MOST_REQUESTS {
        match exchange(&url, &headers).await {
            Ok(Exchanged::Answer(response)) => return Ok(response),
            Ok(Exchanged::Moved { to, absolute }) => {
                headers.moved(&url, &to, absolute);
                url = to;
            }
            Err(fault) => return Err(HttpError { url: url.to_string(), fault }),
        }
    }
    Err(HttpError { url: url.to_string(), fault: Fault::Redirects })
}
