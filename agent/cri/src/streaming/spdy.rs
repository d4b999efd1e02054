//! The remote command protocol over SPDY/3.1: one SPDY stream per stream of the command; stdin can be ended.

use hyper::header::{CONNECTION, HOST, HeaderName, UPGRADE};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::address::Address;
use super::frame::{self, Frame};
use super::{ExecError, ExecInput, LARGEST_INPUT, status};
use crate::logs::{Piece, Stream};

const SPDY: &str = "SPDY/3.1";
/// The status is JSON.
const V4: &str = "v4.channel.k8s.io";
const VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// The streams of a client have odd numbers in the order of opening.
const ERROR: u32 = 1;
const STDIN: u32 = 3;
const STDOUT: u32 = 5;
const STDERR: u32 = 7;
/// The streams with their header `streamType`; the server waits until all are open.
const STREAMS: [(u32, &str); 4] =
    [(ERROR, "error"), (STDIN, "stdin"), (STDOUT, "stdout"), (STDERR, "stderr")];

/// Runs the command of this URL, with stdin, stdout and stderr.
pub async fn run(
    address: &Address,
    input: &mut mpsc::Receiver<ExecInput>,
    output: &mpsc::Sender<Piece>,
) -> Result<i32, ExecError> {
    let connection = upgrade(address).await?;
    let (reader, writer) = io::split(TokioIo::new(connection));
    let broken = |source| ExecError::Spdy { server: address.server.clone(), source };
    let (ping, pings) = mpsc::channel(16);
    tokio::select! {
        ended = listen(reader, output, ping) => match ended {
            Ok(Some(ended)) => ended,
            Ok(None) => Err(ExecError::Broken { server: address.server.clone() }),
            Err(source) => Err(broken(source)),
        },
        // If writing fails, the reader returns the reason.
        () = async { let _ = feed(writer, input, pings).await; std::future::pending().await } => {
            Err(ExecError::Broken { server: address.server.clone() })
        }
    }
}

/// Upgrades an HTTP connection to SPDY.
async fn upgrade(address: &Address) -> Result<hyper::upgrade::Upgraded, ExecError> {
    let failed = |source| ExecError::Http { server: address.server.clone(), source };
    let stream = TokioIo::new(address.connect().await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(failed)?;
    // Ends when the connection was upgraded or failed; in the latter case the request returns the error.
    tokio::spawn(connection.with_upgrades());
    let request = Request::post(&address.path)
        .header(HOST, &address.server)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, SPDY)
        .header(VERSION, V4)
        .body(String::new())
        .map_err(|_| ExecError::Address { url: address.path.clone() })?;
    let answer = sender.send_request(request).await.map_err(failed)?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = answer.status().as_u16();
        return Err(ExecError::NotSpoken { server: address.server.clone(), protocol: SPDY, status });
    }
    hyper::upgrade::on(answer).await.map_err(failed)
}

/// Opens the streams and sends the input.
async fn feed(
    mut writer: impl AsyncWrite + Unpin,
    input: &mut mpsc::Receiver<ExecInput>,
    mut pings: mpsc::Receiver<u32>,
) -> io::Result<()> {
    for (at, (stream, kind)) in STREAMS.into_iter().enumerate() {
        writer.write_all(&frame::open(stream, "streamtype", kind, at == 0)).await?;
    }
    writer.flush().await?;
    let mut open = true;
    loop {
        tokio::select! {
            Some(id) = pings.recv() => writer.write_all(&frame::pong(id)).await?,
            item = input.recv(), if open => match item {
                Some(ExecInput::Stdin(bytes)) => {
                    for part in bytes.chunks(LARGEST_INPUT) {
                        writer.write_all(&frame::data(STDIN, part, false)).await?;
                    }
                }
                Some(ExecInput::Close) => {
                    writer.write_all(&frame::data(STDIN, &[], true)).await?;
                    open = false;
                }
                // This command has no terminal.
                Some(ExecInput::Resize { .. }) => {}
                None => open = false,
            },
            else => return Ok(()),
        }
        writer.flush().await?;
    }
}

/// Passes on the output until the status arrives; `None` if the connection ends before.
pub(super) async fn listen(
    reader: impl AsyncRead + Unpin,
    output: &mpsc::Sender<Piece>,
    ping: mpsc::Sender<u32>,
) -> io::Result<Option<Result<i32, ExecError>>> {
    let mut reader = io::BufReader::with_capacity(64 << 10, reader);
    let mut ending = status::Collected::default();
    loop {
        let mut head = [0; frame::HEAD];
        match reader.read_exact(&mut head).await {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        };
        let mut body = vec![0; frame::length(head)];
        reader.read_exact(&mut body).await?;
        let (stream, bytes) = match frame::read(head, body) {
            Frame::Data { stream: ERROR, bytes, .. } => {
                if let Some(ended) = ending.add(&bytes) {
                    return Ok(Some(ended));
                }
                continue;
            }
            Frame::Data { stream: STDOUT, bytes, .. } => (Stream::Stdout, bytes),
            Frame::Data { stream: STDERR, bytes, .. } => (Stream::Stderr, bytes),
            Frame::Ping { id } => {
                // Without a response the server may close the connection, which is noticed.
                let _ = ping.try_send(id);
                continue;
            }
            Frame::Reset { stream: ERROR } | Frame::GoAway => return Ok(None),
            _ => continue,
        };
        // The receiver was dropped: further output is discarded, but the exit code is still returned.
        if !bytes.is_empty() {
            let _ = output.send(Piece { stream, bytes }).await;
        }
    }
}
