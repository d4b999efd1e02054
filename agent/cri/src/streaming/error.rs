//! Why a command in a container has no exit code.

use std::io;

use crate::RuntimeError;

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The runtime refused the call.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error("the runtime's streaming address {url} is not understood: expected http://<host>:<port>/…")]
    Address { url: String },
    #[error("the runtime's streaming server {server}: connect: {source}")]
    Connect { server: String, source: io::Error },
    /// The server sent an HTTP response instead of a stream.
    #[error("the runtime's streaming server {server} does not speak {protocol}: HTTP status {status}")]
    NotSpoken { server: String, protocol: &'static str, status: u16 },
    #[error("the runtime's streaming server {server}: HTTP: {source}")]
    Http { server: String, source: hyper::Error },
    #[error("the runtime's streaming server {server}: WebSocket: {source}")]
    WebSocket { server: String, source: Box<tokio_tungstenite::tungstenite::Error> },
    #[error("the runtime's streaming server {server}: SPDY: {source}")]
    Spdy { server: String, source: io::Error },
    #[error(
        "the runtime's streaming server {server} ended the connection without saying how the command ended"
    )]
    Broken { server: String },
    /// The command did not run.
    #[error("{message}")]
    NotRun { message: String },
}
