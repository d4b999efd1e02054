//! A TCP connection that is opened and closed (kubelet pkg/probe/tcp).

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::timeout;

use super::{ProbeError, failure, success};
use crate::http_get::dial;
use crate::probes::{Answer, host_port};

/// A success once the other side's kernel has taken the connection; nothing is sent.
///
/// # Errors
/// No address to go to, or nothing left here to make a connection of.
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
