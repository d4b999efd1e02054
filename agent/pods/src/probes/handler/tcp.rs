//! Probes that open and close a TCP connection (kubelet pkg/probe/tcp).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::time::timeout;

use super::{ProbeError, failure, success};
use crate::http_get::{connect, dial};
use crate::probes::{Answer, host_port};

/// What to connect to.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// The name or address that the probe names.
    Host(&'a str),
    /// The pod's address.
    Address(SocketAddr),
}

/// Runs the probe: a success if the peer's kernel accepts the connection; nothing is sent.
///
/// # Errors
/// The pod has no address, or the machine lacks the resources for a connection.
pub(super) async fn probe(
    asked: Option<&str>,
    port: u16,
    address: Option<IpAddr>,
    limit: Duration,
) -> Result<Answer, ProbeError> {
    let place = match (asked, address) {
        (Some(host), _) => Place::Host(host),
        (None, Some(address)) => Place::Address(SocketAddr::new(address, port)),
        (None, None) => return Err(ProbeError::NoAddress),
    };
    let dialled = async {
        match place {
            Place::Host(host) => dial(host, port).await.map(|(stream, _)| stream),
            Place::Address(address) => connect(address).await,
        }
    };
    match timeout(limit, dialled).await {
        Ok(Ok(_closed)) => Ok(success(b"")),
        Ok(Err(fault)) if fault.is_ours() => Err(ProbeError::Dial(fault)),
        Ok(Err(fault)) => Ok(failure(fault.to_string().as_bytes())),
        Err(_) => {
            let place = match place {
                Place::Host(host) => host_port(host, port),
                Place::Address(address) => address.to_string(),
            };
            Ok(failure(format!("dial tcp {place}: i/o timeout").as_bytes()))
        }
    }
}
