//! The remote command protocol over WebSocket: each message is the number of a channel followed by data.

use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::client::ClientRequestBuilder;
use tokio_tungstenite::tungstenite::http::Uri;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::address::Address;
use super::{ExecError, ExecInput, LARGEST_INPUT, size_message, status};
use crate::logs::{Piece, Stream};

/// KEP-4006: like v4, with [`CLOSE`].
const V5: &str = "v5.channel.k8s.io";
/// The status is JSON.
const V4: &str = "v4.channel.k8s.io";

/// The protocols for a command whose input does not have to end.
pub const ANY: [&str; 2] = [V5, V4];
/// The protocols that can signal the end of the input.
pub const WITH_CLOSE: [&str; 1] = [V5];

/// Channels (`staging/…/apimachinery/pkg/util/remotecommand`).
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// v5: closes the channel whose number follows.
const CLOSE: u8 = 255;

/// Runs the command of this URL.
pub async fn run(
    address: &Address,
    protocols: &[&str],
    input: &mut mpsc::Receiver<ExecInput>,
    output: &mpsc::Sender<Piece>,
) -> Result<i32, ExecError> {
    let server = || address.server.clone();
    let failed = |source| match source {
        Error::Http(answer) => ExecError::NotSpoken {
            server: server(),
            protocol: "WebSocket with v5.channel.k8s.io or v4.channel.k8s.io",
            status: answer.status().as_u16(),
        },
        source => ExecError::WebSocket { server: server(), source: Box::new(source) },
    };
    let url = format!("ws://{}{}", address.server, address.path);
    let uri: Uri = url.parse().map_err(|_| ExecError::Address { url })?;
    let request = protocols
        .iter()
        .fold(ClientRequestBuilder::new(uri), |request, protocol| request.with_sub_protocol(*protocol));
    let (socket, answer) =
        tokio_tungstenite::client_async(request, address.connect().await?).await.map_err(failed)?;
    let closes = answer.headers().get("sec-websocket-protocol").is_some_and(|protocol| protocol == V5);
    // Both directions are independent: one may stall while the other continues.
    let (mut sink, stream) = socket.split();
    let feed = async {
        while let Some(item) = input.recv().await {
            for message in messages(item, closes) {
                // The reading half returns the reason.
                if sink.send(Message::binary(message)).await.is_err() {
                    return;
                }
            }
        }
    };
    tokio::select! {
        ended = listen(stream, output) => match ended {
            Ok(Some(ended)) => ended,
            Ok(None) => Err(ExecError::Broken { server: server() }),
            Err(source) => Err(failed(source)),
        },
        () = async { feed.await; std::future::pending().await } => Err(ExecError::Broken { server: server() }),
    }
}

/// Passes on the output until the status arrives; `None` if the connection ends before.
pub(super) async fn listen(
    mut stream: impl futures_util::Stream<Item = Result<Message, Error>> + Unpin,
    output: &mpsc::Sender<Piece>,
) -> Result<Option<Result<i32, ExecError>>, Error> {
    let mut ending = status::Collected::default();
    while let Some(message) = stream.next().await {
        let bytes = match message? {
            Message::Binary(bytes) => bytes,
            Message::Close(_) => break,
            _ => continue,
        };
        let Some((channel, bytes)) = bytes.split_first() else { continue };
        let stream = match *channel {
            STDOUT => Stream::Stdout,
            STDERR => Stream::Stderr,
            ERROR => match ending.add(bytes) {
                Some(ended) => return Ok(Some(ended)),
                None => continue,
            },
            _ => continue,
        };
        // The receiver was dropped: further output is discarded, but the exit code is still returned.
        if !bytes.is_empty() {
            let _ = output.send(Piece { stream, bytes: bytes.to_vec() }).await;
        }
    }
    Ok(None)
}

/// The messages to send for an input.
fn messages(input: ExecInput, closes: bool) -> Vec<Vec<u8>> {
    let on = |channel: u8, bytes: &[u8]| [&[channel], bytes].concat();
    match input {
        ExecInput::Stdin(bytes) => bytes.chunks(LARGEST_INPUT).map(|part| on(STDIN, part)).collect(),
        ExecInput::Close if closes => vec![vec![CLOSE, STDIN]],
        ExecInput::Close => Vec::new(),
        ExecInput::Resize { columns, rows } => vec![on(RESIZE, &size_message(columns, rows))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_by_channel() {
        assert_eq!(messages(ExecInput::Stdin(b"ls".to_vec()), false), [b"\0ls"]);
        assert_eq!(messages(ExecInput::Stdin(vec![7; LARGEST_INPUT + 1]), false)[1], [0, 7]);
        assert_eq!(messages(ExecInput::Close, true), [[255, 0]]);
        assert!(messages(ExecInput::Close, false).is_empty());
        let resize = messages(ExecInput::Resize { columns: 80, rows: 24 }, false);
        assert_eq!(resize, [b"\x04{\"Width\":80,\"Height\":24}\n"]);
    }
}
