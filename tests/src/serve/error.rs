//! Why a server cannot start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("listen on {address}: {source}")]
    Listen { address: SocketAddr, source: io::Error },
    #[error("{call}: {source}")]
    System { call: &'static str, source: io::Error },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("make a certificate: {source}")]
    Certificate { source: rcgen::Error },
    #[error("set up TLS: {source}")]
    Tls { source: rustls::Error },
}

impl ServeError {
    /// For `map_err` on a system call.
    pub(super) fn system(call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { call, source }
    }

    /// For `map_err` on what makes a listener.
    pub(super) fn at(address: SocketAddr) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Listen { address, source }
    }
}
