//! Entry points for fuzzing: what a runtime's streaming server sends.

use futures_util::FutureExt;
use tokio::io;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::address::Address;
use super::{spdy, websocket};
use crate::logs::Piece;

/// More messages than an input can have.
const MESSAGES: usize = 1 << 16;

/// What was understood of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The exit code, if the command's status came.
    pub exit_code: Option<i32>,
    /// The command's output.
    pub output: Vec<Piece>,
}

/// Reads a connection over SPDY on which the server sends these bytes and closes.
pub fn spdy(bytes: &[u8]) -> Received {
    let (output, pieces) = mpsc::channel(MESSAGES);
    let (ping, _pings) = mpsc::channel(16);
    let ended = spdy::listen(bytes, &output, ping).now_or_never();
    received(ended.and_then(Result::ok).flatten().and_then(Result::ok), pieces)
}

/// Reads a connection over WebSocket on which the server sends these bytes after its handshake and closes.
pub fn websocket(bytes: &[u8]) -> Received {
    let (output, pieces) = mpsc::channel(MESSAGES);
    let ended = async {
        let socket = WebSocketStream::from_raw_socket(io::join(bytes, io::sink()), Role::Client, None).await;
        websocket::listen(socket, &output).await
    };
    received(ended.now_or_never().and_then(Result::ok).flatten().and_then(Result::ok), pieces)
}

fn received(exit_code: Option<i32>, mut pieces: mpsc::Receiver<Piece>) -> Received {
    let output = std::iter::from_fn(|| pieces.try_recv().ok()).collect();
    Received { exit_code, output }
}

/// Host with port, and path of the URL of a streaming server; `None` when it is refused.
pub fn server(url: &str) -> Option<(String, String)> {
    Address::parse(url).ok().map(|address| (address.server, address.path))
}
