//! Accepts connections of the node's server within bounds: TLS, and HTTP/1.1.
//!
//! A client has some seconds for the handshake and for the head of each request; one that takes nothing of an
//! answer is cut, and so is the oldest of too many that are not authenticated ([`crate::unauthenticated`]).

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nodewarden_api::http::connections::{ACCEPT_AGAIN, client, is_of_connection};
use nodewarden_api::http::stalling::{StallLimit, Stalling};
use nodewarden_metrics::Own;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub use crate::unauthenticated::Bounds;
use crate::unauthenticated::{Place, Unauthenticated};

/// What a connection may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How many connections there may be.
    pub bounds: Bounds,
    /// How long the handshake may take.
    pub handshake: Duration,
    /// How long a client may take to send the head of a request, and how long a connection may be idle.
    pub head: Duration,
    /// How long a client may take nothing of an answer that is no stream.
    pub stall: Duration,
    /// Bytes of a request's head.
    pub head_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bounds: Bounds::default(),
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            stall: Duration::from_secs(10),
            head_bytes: 64 << 10,
        }
    }
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct Connection {
    /// The client's certificate and those above it; empty if it showed none.
    pub(crate) chain: Vec<CertificateDer<'static>>,
    /// How long the client may take nothing.
    pub(crate) stall: StallLimit,
    place: Place,
}

impl Connection {
    /// Marks the client as known. `false` if there are too many connections.
    pub(crate) fn know(&self) -> bool {
        self.place.know()
    }
}

/// Answers requests.
pub trait Answers: Send + Sync + 'static {
    /// The answer to a request of this connection.
    fn answer(
        self: Arc<Self>,
        connection: Arc<Connection>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response> + Send;
}

/// Serves until `stopping` becomes true; connections then end with the answer that they are at.
pub async fn serve(
    listener: TcpListener,
    tls: TlsAcceptor,
    server: Arc<impl Answers>,
    limits: Limits,
    mut stopping: watch::Receiver<bool>,
) {
    let unauthenticated = Unauthenticated::new(limits.bounds);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stopping) => return,
        };
        match accepted {
            Ok((stream, address)) => {
                let (place, cut, another) = unauthenticated.enter(client(address.ip()));
                if another {
                    ::metrics::counter!(Own::HttpRefused.name()).increment(1);
                }
                let work = connection(stream, tls.clone(), server.clone(), limits, place, stopping.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = work => {}
                        // There are too many, and this one is the oldest.
                        _ = cut => tracing::debug!(%address, "a connection that is not authenticated is cut"),
                    }
                });
            }
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections of the node's server");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    tls: TlsAcceptor,
    server: Arc<impl Answers>,
    limits: Limits,
    place: Place,
    mut stopping: watch::Receiver<bool>,
) {
    // Typed input is passed on at once.
    let _ = stream.set_nodelay(true);
    let stall = StallLimit::from(limits.stall);
    let stream = Stalling::new(stream, stall.clone());
    let stream = match tokio::time::timeout(limits.handshake, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake with a client of the node's server");
            return;
        }
        Err(_) => {
            tracing::debug!("a client of the node's server did not finish the TLS handshake");
            return;
        }
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let chain = chain.iter().map(|own| own.clone().into_owned()).collect();
    let connection = Arc::new(Connection { chain, stall, place });
    let service = service_fn(move |request| {
        let (server, connection) = (server.clone(), connection.clone());
        async move { Ok::<_, Infallible>(server.answer(connection, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = &mut served => ended,
        () = stopped(&mut stopping) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of the node's server is cut");
    }
}

/// Completes when the server is asked to end.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the agent ends.
    let _ = stopping.wait_for(|stop| *stop).await;
}
