//! One request and its response, on a connection of its own.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;

use futures_util::future::{Either, select};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{HeaderValue, LOCATION};
use hyper::{Request, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::executor::LocalExecutor;
use super::request::{Body, Headers};
use super::socket::dial;
use super::stream::Stream;
use super::tls::{Trust, secured};
use super::url::Url;
use super::{Fault, Response};
use nodewarden_manifest::Scheme;

/// Maximum number of bytes of a non-HTTP response that an error shows.
const SHOWN: usize = 64;

/// Result of a request.
#[derive(Debug)]
pub(super) enum Exchanged {
    Answer(Response),
    /// A redirect to be followed.
    Moved {
        to: Url,
        /// Whether the server gave an absolute URL.
        absolute: bool,
    },
}

/// What differs between the purposes of requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms<'a> {
    /// Which servers are trusted.
    pub trust: &'a Trust,
    /// Maximum number of body bytes that are read.
    pub longest: usize,
    /// Only redirects within the same host are followed.
    pub stays: bool,
}

pub(super) async fn exchange(url: &Url, headers: &Headers<'_>, terms: Terms<'_>) -> Result<Exchanged, Fault> {
    // Built first: a request that cannot be sent needs no connection.
    let request = headers.request(url, Version::HTTP_11)?;
    let (stream, address) = dial(&url.host, url.port()).await?;
    if url.scheme == Scheme::Http {
        return over_http1(stream, address, request, url, terms).await;
    }
    // Boxed: a connection with TLS takes 20 kB, which those without would take too, a thousand times a
    // second.
    Box::pin(over_tls(stream, address, request, url, headers, terms)).await
}

async fn over_tls(
    stream: Stream,
    address: SocketAddr,
    request: Request<Body>,
    url: &Url,
    headers: &Headers<'_>,
    terms: Terms<'_>,
) -> Result<Exchanged, Fault> {
    let stream = secured(stream, &url.host, address, terms.trust).await?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        return over_http2(stream, address, headers.request(url, Version::HTTP_2)?, url, terms).await;
    }
    over_http1(stream, address, request, url, terms).await
}

async fn over_http1<S>(
    stream: S,
    peer: SocketAddr,
    ask: Request<Body>,
    url: &Url,
    terms: Terms<'_>,
) -> Result<Exchanged, Fault>
where
    S: AsyncRead + AsyncWrite + Send + Unpin,
{
    let mut builder = http1::Builder::new();
    builder.title_case_headers(true).allow_obsolete_multiline_headers_in_responses(true);
    let shaken = builder.handshake(TokioIo::new(stream)).await;
    let (mut sender, mut connection) = shaken.map_err(|error| Fault::of(error, peer))?;
    let answer = pin!(read(sender.send_request(ask), peer, url, terms));
    let driver = poll_fn(|cx| connection.poll_without_shutdown(cx));
    let done = match select(answer, driver).await {
        Either::Left((done, _)) => done,
        // The connection has ended, so the rest of the response is already buffered.
        Either::Right((_, answer)) => answer.await,
    };
    done.map_err(|fault| match fault {
        Fault::Malformed { source, .. } => {
            Fault::Malformed { begin: first_line(&connection.into_parts().read_buf), source }
        }
        fault => fault,
    })
}

async fn over_http2<S>(
    stream: S,
    peer: SocketAddr,
    ask: Request<Body>,
    url: &Url,
    terms: Terms<'_>,
) -> Result<Exchanged, Fault>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let executor = LocalExecutor::default();
    let whole = async {
        let shaken = http2::handshake(executor.clone(), TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| Fault::of(error, peer))?;
        let answer = pin!(read(sender.send_request(ask), peer, url, terms));
        match select(answer, pin!(connection)).await {
            Either::Left((done, _)) => done,
            Either::Right((_, answer)) => answer.await,
        }
    };
    executor.run(whole).await
}

/// Reads the head of the response, and the body unless it is a redirect to be followed.
async fn read(
    answer: impl Future<Output = hyper::Result<hyper::Response<Incoming>>>,
    peer: SocketAddr,
    url: &Url,
    terms: Terms<'_>,
) -> Result<Exchanged, Fault> {
    let answer = answer.await.map_err(|error| Fault::of(error, peer))?;
    let status = answer.status().as_u16();
    let location = answer.headers().get(LOCATION).filter(|_| matches!(status, 301..=303 | 307 | 308));
    let location =
        location.map(HeaderValue::as_bytes).map(String::from_utf8_lossy).filter(|to| !to.is_empty());
    let moved = location.as_deref().map(|to| url.follow(to, terms.stays)).transpose()?;
    if let Some(Some((to, absolute))) = moved {
        return Ok(Exchanged::Moved { to, absolute });
    }
    let foreign_redirect = location.map(|to| to.into_owned());
    let body = body(answer.into_body(), terms.longest).await;
    let body = body.map_err(|error| Fault::Body(Box::new(Fault::of(error, peer))))?;
    Ok(Exchanged::Answer(Response { status, body, foreign_redirect }))
}

/// Reads the body up to the limit.
async fn body(mut body: Incoming, longest: usize) -> hyper::Result<Vec<u8>> {
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            let room = longest - read.len();
            read.extend_from_slice(&data[..data.len().min(room)]);
            if read.len() == longest {
                break;
            }
        }
    }
    Ok(read)
}

/// The first line of the received bytes, shortened for an error message.
fn first_line(came: &[u8]) -> String {
    let line = came.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned()
}
