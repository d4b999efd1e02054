//! Why there is no answer, in the words that people know from Go's client.

use std::error::Error as _;
use std::io;
use std::net::SocketAddr;

use nix::errno::Errno;

/// A request that failed.
#[derive(Debug, thiserror::Error)]
#[error("Get {url:?}: {fault}")]
pub struct HttpError {
    /// Where it failed: after redirects another than what was asked.
    pub url: String,
    pub fault: Fault,
}

/// How it failed.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("invalid host name {0:?}")]
    Host(String),
    #[error("invalid header {0:?}")]
    Header(String),
    #[error("invalid path {0:?}")]
    Path(String),
    #[error("dial tcp: lookup {host}: {}", words(source))]
    Lookup { host: String, source: io::Error },
    #[error("dial tcp {address}: connect: {}", words(source))]
    Connect { address: SocketAddr, source: io::Error },
    /// The connection broke.
    #[error("read tcp {address}: {}", words(source))]
    Broken { address: SocketAddr, source: io::Error },
    /// The server closed the connection before it had answered.
    #[error("EOF")]
    Closed,
    #[error("tls: {0}")]
    Tls(#[from] rustls::Error),
    #[error("server gave HTTP response to HTTPS client")]
    PlainAnswer,
    #[error("malformed HTTP response {begin:?}: {source}")]
    Malformed {
        /// The first line of what came.
        begin: String,
        source: hyper::Error,
    },
    #[error("{}", chain(.0))]
    Exchange(hyper::Error),
    /// An answer was there, and the end of its body never came.
    #[error("reading the body: {0}")]
    Body(Box<Fault>),
    #[error("failed to parse Location header {0:?}")]
    Location(String),
    #[error("unsupported protocol scheme {0:?}")]
    Scheme(String),
    #[error("stopped after {} redirects", super::MOST_REQUESTS)]
    Redirects,
}

impl Fault {
    /// What hyper says of a connection to `address`.
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

    /// What the stream to `address` says, TLS or not.
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

    /// Whether this machine could not even try: nothing is known of the server then.
    pub fn is_ours(&self) -> bool {
        const OURS: [Errno; 5] =
            [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM, Errno::EADDRNOTAVAIL];
        let Self::Connect { source, .. } = self else { return false };
        source.raw_os_error().is_some_and(|code| OURS.contains(&Errno::from_raw(code)))
    }
}

/// What of the system is behind hyper's error.
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

/// hyper's words, with what is behind them.
fn chain(error: &hyper::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// "connection refused", as Go writes it.
fn words(error: &io::Error) -> String {
    let Some(code) = error.raw_os_error() else { return error.to_string() };
    let text = Errno::from_raw(code).desc();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
