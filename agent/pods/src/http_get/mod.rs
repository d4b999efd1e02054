//! An HTTP or HTTPS GET request as the kubelet sends it (pkg/probe/http), for lifecycle hooks and probes.
//!
//! [`get`] sends the request of an [`HttpGetAction`] of a manifest and follows redirects within the same
//! host; certificates are not verified. `fetch` sends one to a URL of the configuration, for pods: it follows
//! every redirect, and the server's certificate has to be good.
//!
//! Both use HTTP/1.1, or HTTP/2 if a TLS server chooses it. No proxy is used, connections are not reused, and
//! none is left in TIME_WAIT. Everything runs in the caller's future: dropping it closes the connection.

mod error;
mod exchange;
mod executor;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod purpose;
mod request;
mod socket;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod url;

pub use error::{Fault, HttpError};
pub(crate) use executor::LocalExecutor;
pub use purpose::Purpose;
pub(crate) use socket::{connect, dial};
pub(crate) use stream::Stream;

use nodewarden_manifest::HttpGetAction;
#[cfg(test)]
use nodewarden_manifest::Scheme;

use exchange::{Exchanged, Terms, exchange};
use request::Headers;
use tls::NO_VERIFICATION;
pub(crate) use tls::Trust;
use url::Url;

/// Maximum number of requests including redirects (Go's client: "stopped after 10 redirects").
const MOST_REQUESTS: usize = 10;
/// Maximum number of body bytes that are read (kubelet `maxRespBodyLength`).
const LONGEST_BODY: usize = 10 << 10;

/// The final response of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status code, such as 200.
    pub status: u16,
    /// The first bytes of the body, at most 10 KiB for a probe or hook.
    pub body: Vec<u8>,
    /// A `Location` header that leads to another host and was not followed.
    pub foreign_redirect: Option<String>,
}

/// Sends the request to `host` (an address or name), unless the manifest names a host. There is no time limit
/// here.
///
/// Redirects within the host are followed, with any scheme and port (kubelet `RedirectChecker`); a response
/// that redirects to another host is returned as the result.
///
/// # Errors
/// There is no response, or its body ended early ([`Fault::Body`]).
pub async fn get(action: &HttpGetAction, host: &str, purpose: Purpose) -> Result<Response, HttpError> {
    let terms = Terms { trust: &NO_VERIFICATION, longest: LONGEST_BODY, stays: true };
    ask(Url::of(action, host), Headers::of(action, purpose), terms).await
}

/// Sends a request with these headers to the absolute `url`, and reads at most `longest` bytes of the body.
/// There is no time limit here. Redirects are followed to every host, as Go's client does.
///
/// # Errors
/// There is no response, or its body ended early ([`Fault::Body`]).
pub(crate) async fn fetch(
    url: &str,
    headers: &[(String, String)],
    trust: &Trust,
    longest: usize,
) -> Result<Response, HttpError> {
    let parsed = Url::parse(url).map_err(|fault| HttpError { url: url.to_owned(), fault })?;
    let terms = Terms { trust, longest, stays: false };
    ask(parsed, Headers::new(headers, Purpose::StaticPods), terms).await
}

async fn ask(mut url: Url, mut headers: Headers<'_>, terms: Terms<'_>) -> Result<Response, HttpError> {
    for _ in 0..MOST_REQUESTS {
        match exchange(&url, &headers, terms).await {
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
