//! Accepts connections within bounds: clients are not authenticated, and none of them may take the agent's
//! memory or descriptors. A connection beyond the bounds is closed at once; one that sends no whole request,
//! or reads no response, is closed after some seconds.

use std::collections::HashMap;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use nodewarden_metrics::Own as Name;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};

/// The pause after an error of accept(2) that the next call would return again, such as too many open files.
const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// What connections may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Open connections.
    pub total: usize,
    /// Open connections of one client: an address, all loopback addresses, or an IPv6 network of 64 bits.
    pub per_client: usize,
    /// How long a client may take to send the head of a request, and how long a connection may be idle.
    pub head: Duration,
    /// How long a client may take nothing of a response.
    pub stall: Duration,
    /// Bytes of a request's head.
    pub head_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let (head, stall) = (Duration::from_secs(10), Duration::from_secs(10));
        Self { total: 128, per_client: 32, head, stall, head_bytes: 16 << 10 }
    }
}

/// Serves `router` until `shutdown` completes and open requests are answered.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) {
    let (clients, graceful) = (Clients::new(limits), GracefulShutdown::new());
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        match accepted {
            Ok((stream, address)) => match clients.enter(address.ip()) {
                Some(place) => {
                    tokio::spawn(connection(stream, router.clone(), limits, graceful.watcher(), place));
                }
                None => ::metrics::counter!(Name::HttpRefused.name()).increment(1),
            },
            Err(error) if is_of_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept HTTP connections");
                sleep(ACCEPT_AGAIN).await;
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
}

async fn connection(stream: TcpStream, router: Router, limits: Limits, watcher: Watcher, place: Place) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .serve_connection(
            TokioIo::new(Stalling::new(stream, limits.stall)),
            TowerToHyperService::new(router),
        );
    if let Err(error) = watcher.watch(served).await {
        tracing::debug!(%error, "HTTP connection cut");
    }
    drop(place);
}

/// Whether the error is of the connection that was to be accepted: the next one is fine.
fn is_of_connection(error: &io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// The open connections of each client.
#[derive(Clone)]
struct Clients {
    limits: Limits,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Clients {
    fn new(limits: Limits) -> Self {
        Self { limits, open: Arc::default() }
    }

    /// A place for a connection; `None` if there are too many.
    fn enter(&self, address: IpAddr) -> Option<Place> {
        let client = client(address);
        let mut open = self.open.lock();
        let total: usize = open.values().sum();
        let own = open.get(&client).copied().unwrap_or(0);
        if total >= self.limits.total || own >= self.limits.per_client {
            return None;
        }
        open.insert(client, own + 1);
        Some(Place { clients: self.clone(), client })
    }
}

/// The right to an open connection.
struct Place {
    clients: Clients,
    client: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.clients.open.lock();
        if let Some(own) = open.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                open.remove(&self.client);
            }
        }
    }
}

/// Addresses that one client can have at its will count as one.
fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        own if own.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(own) => Ipv6Addr::from_bits(own.to_bits() & (u128::MAX << 64)).into(),
        own => own,
    }
}

/// A connection that breaks when the client takes nothing for too long.
struct Stalling {
    stream: TcpStream,
    limit: Duration,
    /// Ends with the limit; `None` while the client takes what is written.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Stalling {
    fn new(stream: TcpStream, limit: Duration) -> Self {
        Self { stream, limit, stalled: None }
    }

    /// The result of writing, or an error when it has been pending for too long.
    fn within<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        stalled.as_mut().poll(cx).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Stalling {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Stalling {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.within(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
