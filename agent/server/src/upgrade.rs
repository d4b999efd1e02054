//! Hands a client's upgraded connection to the runtime's streaming server, byte for byte, as the kubelet's
//! upgrade-aware proxy: the protocol, SPDY/3.1 or WebSocket, is between those two.

mod pipe;

use std::future::Future;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, Method, Request, StatusCode, header};
use axum::response::Response;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use nodewarden_cri::{Address, ExecError};

use crate::answer;

/// How long the runtime's server may take to answer the request, including connecting.
const ANSWER: Duration = Duration::from_secs(30);
/// The longest answer of the runtime's server that is no upgrade, in bytes.
const LONGEST_ERROR: usize = 64 << 10;

/// Why a connection was not handed over.
#[derive(Debug, thiserror::Error)]
enum ProxyError {
    #[error(transparent)]
    Address(#[from] ExecError),
    #[error("the runtime's streaming server {server}: {source}")]
    Http { server: String, source: hyper::Error },
    #[error("the runtime's streaming server {server} did not answer within {ANSWER:?}")]
    Late { server: String },
    #[error("the request cannot be passed on: {0}")]
    Request(#[from] axum::http::Error),
}

/// Whether the client wants to talk another protocol.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    has_word(headers, header::CONNECTION, "upgrade")
}

/// Whether that protocol is WebSocket.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    is_wanted(headers) && has_word(headers, header::UPGRADE, "websocket")
}

fn has_word(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|own| own.trim().eq_ignore_ascii_case(word))
}

/// Sends the request to the streaming server at `url` and answers as that does. After an upgrade the two
/// connections are joined until one ends, nothing passes for the time `idle`, or `stop` completes; `hold` is
/// dropped then.
pub async fn proxy<B>(
    mut request: Request<B>,
    url: &str,
    idle: Option<Duration>,
    stop: impl Future<Output = ()> + Send + 'static,
    hold: impl Send + 'static,
) -> Response {
    if !is_wanted(request.headers()) {
        return answer::text(StatusCode::BAD_REQUEST, "Upgrade request required");
    }
    let client = hyper::upgrade::on(&mut request);
    let asked = ask(request.method().clone(), request.headers().clone(), url);
    let (response, runtime) = match tokio::time::timeout(ANSWER, asked).await {
        Ok(Ok(answered)) => answered,
        Ok(Err(error)) => return failed(&error),
        Err(_) => return failed(&ProxyError::Late { server: url.to_owned() }),
    };
    if let Some(runtime) = runtime {
        tokio::spawn(async move {
            tokio::select! {
                () = join(client, runtime, idle) => {}
                () = stop => {}
            }
            drop(hold);
        });
    }
    response
}

fn failed(error: &ProxyError) -> Response {
    tracing::warn!(%error, "a stream could not be handed to the runtime");
    answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// The answer of the streaming server, and if that is an upgrade, its side of the connection.
async fn ask(
    method: Method,
    headers: HeaderMap,
    url: &str,
) -> Result<(Response, Option<OnUpgrade>), ProxyError> {
    let address = Address::parse(url)?;
    let failed = |source| ProxyError::Http { server: address.server.clone(), source };
    let stream = TokioIo::new(address.connect().await?);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(failed)?;
    // Ends when the connection was upgraded or failed; in the latter case the request returns the error.
    tokio::spawn(connection.with_upgrades());
    let mut asked = Request::builder().method(method).uri(&address.path);
    for (name, value) in &headers {
        if !is_for_this_server(name) {
            asked = asked.header(name, value);
        }
    }
    let asked = asked.header(header::HOST, &address.server).body(Empty::<Bytes>::new())?;
    let mut answered = sender.send_request(asked).await.map_err(failed)?;
    if answered.status() == StatusCode::SWITCHING_PROTOCOLS {
        let runtime = hyper::upgrade::on(&mut answered);
        let mut response = Response::new(Body::empty());
        *response.status_mut() = answered.status();
        std::mem::swap(response.headers_mut(), answered.headers_mut());
        return Ok((response, Some(runtime)));
    }
    let status = answered.status();
    let text = Limited::new(answered.into_body(), LONGEST_ERROR).collect().await;
    let text = text.map(|text| String::from_utf8_lossy(&text.to_bytes()).into_owned()).unwrap_or_default();
    // Success without an upgrade is none.
    let status =
        if status.is_client_error() || status.is_server_error() { status } else { StatusCode::BAD_GATEWAY };
    Ok((answer::text(status, text), None))
}

/// Credentials, and what describes this connection or its body, are for this server alone.
fn is_for_this_server(name: &HeaderName) -> bool {
    [
        header::HOST,
        header::AUTHORIZATION,
        header::COOKIE,
        header::CONTENT_LENGTH,
        header::TRANSFER_ENCODING,
        header::EXPECT,
        header::PROXY_AUTHORIZATION,
    ]
    .contains(name)
}

async fn join(client: OnUpgrade, runtime: OnUpgrade, idle: Option<Duration>) {
    match tokio::try_join!(client, runtime) {
        Ok((client, runtime)) => {
            let ended = pipe::run(TokioIo::new(client), TokioIo::new(runtime), idle).await;
            tracing::debug!(?ended, "a stream has ended");
        }
        Err(error) => tracing::debug!(%error, "a stream was not begun"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_wants() {
        let headers = |entries: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in entries {
                headers.append(HeaderName::from_static(name), value.parse().unwrap());
            }
            headers
        };
        for (entries, wanted, websocket) in [
            (&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")][..], true, false),
            (&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")], true, true),
            (
                &[("connection", "keep-alive"), ("connection", "upgrade"), ("upgrade", "WebSocket")],
                true,
                true,
            ),
            (&[("upgrade", "websocket")], false, false),
            (&[("connection", "keep-alive")], false, false),
        ] {
            let headers = headers(entries);
            assert_eq!((is_wanted(&headers), is_websocket(&headers)), (wanted, websocket), "{entries:?}");
        }
    }
}
