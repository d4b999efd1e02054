//! Probes that open and close a TCP connection (kubelet pkg/probe/tcp).

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::{ProbeError, failure, success};
use crate::http_get::dial;
use crate::probes::{Answer, host_port};

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
    let host = match (asked, address) {
        (Some(host), _) => host.to_owned(),
        (None, Some(address)) => address.to_string(),
        (None, None) => return Err(ProbeError::NoAddress),
    };
    match timeout(limit, dial(&host, port)).await {
        Ok(Ok(_closed)) => Ok(success(b"")),
        Ok(Err(fault)) if fault.is_ours() => Err(ProbeError::Dial(fault)),
        Ok(Err(fault)) => Ok(failure(fault.to_string().as_bytes())),
        Err(_) => Ok(failure(format!("dial tcp {}: i/o timeout", host_port(&host, port)).as_bytes())),
    }
}
