//! Accepts connections within bounds: clients are not authenticated, and none of them may take the agent's
//! memory or descriptors. A connection beyond the bounds is closed at once; one that sends no whole request,
//! or reads no response, is closed after some seconds.

use std::collections::HashMap;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use nodewarden_metrics::Own as Name;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::stalling::Stalling;

/// The pause after an error of accept(2) that the next call would return again, such as too many open files.
pub const ACCEPT_AGAIN: Duration = Duration::from_secs(1);

/// What connections may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
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
pub async fn serve(
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
            TokioIo::new(Stalling::new(stream, limits.stall.into())),
            TowerToHyperService::new(router),
        );
    if let Err(error) = watcher.watch(served).await {
        tracing::debug!(%error, "HTTP connection cut");
    }
    drop(place);
}

/// Whether the error of accept(2) is of the connection that was to be accepted: the next one is fine.
pub fn is_of_connection(error: &io::Error) -> bool {
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

/// The client of this address: addresses that one client can have at its will count as one.
pub fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        own if own.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(own) => Ipv6Addr::from_bits(own.to_bits() & (u128::MAX << 64)).into(),
        own => own,
    }
}

#[cfg(test)]
mod tests;
