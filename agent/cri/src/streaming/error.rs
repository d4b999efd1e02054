//! Why a command in a container has no exit code.

use std::io;

use crate::RuntimeError;

/// Why a streamed command has no exit code.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The runtime refused the call.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The URL that the runtime returned is not one of a streaming server.
    #[error("the runtime's streaming address {url} is not understood: expected http://<host>:<port>/…")]
    Address {
        /// The URL as the runtime returned it.
        url: String,
    },
    /// The connection to the streaming server could not be opened.
    #[error("the runtime's streaming server {server}: connect: {source}")]
    Connect {
        /// Address and port of the server.
        server: String,
        /// The system's error.
        source: io::Error,
    },
    /// The server sent an HTTP response instead of a stream.
    #[error("the runtime's streaming server {server} does not speak {protocol}: HTTP status {status}")]
    NotSpoken {
        /// Address and port of the server.
        server: String,
        /// The protocol that was requested: WebSocket with its subprotocols, or SPDY/3.1.
        protocol: &'static str,
        /// The status code of its response.
        status: u16,
    },
    /// The HTTP exchange before the stream failed.
    #[error("the runtime's streaming server {server}: HTTP: {source}")]
    Http {
        /// Address and port of the server.
        server: String,
        /// What failed.
        source: hyper::Error,
    },
    /// The server violated the WebSocket protocol, or the connection broke.
    #[error("the runtime's streaming server {server}: WebSocket: {source}")]
    WebSocket {
        /// Address and port of the server.
        server: String,
        /// What failed.
        source: Box<tokio_tungstenite::tungstenite::Error>,
    },
    /// The server violated SPDY/3.1, or the connection broke.
    #[error("the runtime's streaming server {server}: SPDY: {source}")]
    Spdy {
        /// Address and port of the server.
        server: String,
        /// What failed.
        source: io::Error,
    },
    /// The connection ended before the server had sent the command's result.
    #[error(
        "the runtime's streaming server {server} ended the connection without saying how the command ended"
    )]
    Broken {
        /// Address and port of the server.
        server: String,
    },
    /// The command did not run.
    #[error("{message}")]
    NotRun {
        /// The server's message.
        message: String,
    },
}
