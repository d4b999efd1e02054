//! Errors of a request, in the words of Go's HTTP client, which users know from the kubelet.

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;

use nix::errno::Errno;

/// A failed request.
#[derive(Debug, thiserror::Error)]
#[error("Get {url:?}: {fault}")]
pub struct HttpError {
    /// The URL that failed; after a redirect it is not the requested one.
    pub url: String,
    /// What failed; its text follows the URL in the message.
    pub fault: Fault,
}

/// The cause of a failure.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The host of the URL is not a valid name or address.
    #[error("invalid host name {0:?}")]
    Host(String),
    /// This header of the manifest has an invalid name or value.
    #[error("invalid header {0:?}")]
    Header(String),
    /// The path of the manifest is not valid in a URL.
    #[error("invalid path {0:?}")]
    Path(String),
    /// The host's name has no address.
    #[error("dial tcp: lookup {host}: {}", words(source))]
    Lookup { host: String, source: io::Error },
    /// The connection was refused or could not be opened.
    #[error("dial tcp {address}: connect: {}", words(source))]
    Connect { address: SocketAddr, source: io::Error },
    /// The connection broke.
    #[error("read tcp {address}: {}", words(source))]
    Broken { address: SocketAddr, source: io::Error },
    /// The server closed the connection before it had responded.
    #[error("EOF")]
    Closed,
    /// The TLS handshake failed, or the server violated the protocol later.
    #[error("tls: {0}")]
    Tls(#[from] rustls::Error),
    /// The scheme is HTTPS and the server answered without TLS.
    #[error("server gave HTTP response to HTTPS client")]
    PlainAnswer,
    /// What the server sent is not an HTTP response.
    #[error("malformed HTTP response {begin:?}: {source}")]
    Malformed {
        /// The first line received.
        begin: String,
        source: hyper::Error,
    },
    /// Another error of the HTTP protocol.
    #[error("{}", chain(.0))]
    Exchange(hyper::Error),
    /// The response began, but its body is incomplete.
    #[error("reading the body: {0}")]
    Body(Box<Fault>),
    /// A redirect has this `Location`, which is not a URL.
    #[error("failed to parse Location header {0:?}")]
    Location(String),
    /// A redirect leads to a URL with this scheme, which is neither http nor https.
    #[error("unsupported protocol scheme {0:?}")]
    Scheme(String),
    /// The response to the tenth request was still a redirect.
    #[error("stopped after {} redirects", super::MOST_REQUESTS)]
    Redirects,
}

impl Fault {
    /// The fault for hyper's error on a connection to `address`.
    pub(super) fn of(error: hyper::Error, address: SocketAddr) -> Self {
        if error.is_incomplete_message() {
            return Self::Closed;
        }
        if let Some(source) = io_error(&error) {
            return Self::of_io(source, address);
        }
        if error.is_parse() {
            return Self::Malformed { begin: String::new(), source: error };
        }
        Self::Exchange(error)
    }

    /// The fault for an I/O error on the stream (plain or TLS) to `address`.
    pub(super) fn of_io(error: &io::Error, address: SocketAddr) -> Self {
        if let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            return Self::Tls(tls.clone());
        }
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Closed,
            kind => {
                let source = error.raw_os_error().map_or_else(|| kind.into(), io::Error::from_raw_os_error);
                Self::Broken { address, source }
            }
        }
    }

    /// Whether the request failed on this machine before it was sent, so that it says nothing about the
    /// server.
    pub fn is_ours(&self) -> bool {
        const OURS: [Errno; 5] =
            [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM, Errno::EADDRNOTAVAIL];
        let Self::Connect { source, .. } = self else { return false };
        source.raw_os_error().is_some_and(|code| OURS.contains(&Errno::from_raw(code)))
    }
}

/// The I/O error that caused hyper's error, if any.
fn io_error(error: &hyper::Error) -> Option<&io::Error> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<io::Error>() {
            return Some(found);
        }
        source = error.source();
    }
    None
}

/// hyper's message with those of its sources.
fn chain(error: &hyper::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// The text of an I/O error as Go writes it: "connection refused".
fn words(error: &io::Error) -> String {
    let Some(code) = error.raw_os_error() else { return error.to_string() };
    let text = Errno::from_raw(code).desc();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
