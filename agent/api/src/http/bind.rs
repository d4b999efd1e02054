//! Binds the address of the HTTP server.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

/// From where the server may be reachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exposure {
    /// Only from this machine.
    #[default]
    Loopback,
    /// From other machines: only by explicit configuration, because clients are not authenticated.
    Network,
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address is reachable from other machines, which [`Exposure::Loopback`] does not allow.
    #[error("{address} is not a loopback address and the configuration does not expose HTTP to the network")]
    NotLoopback {
        /// The address that was configured.
        address: SocketAddr,
    },
    /// bind(2) or listen(2) failed, for example because the port is in use.
    #[error("listen on {address}: {source}")]
    Listen {
        /// The address that was configured.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// Listens on `address`.
///
/// # Errors
///
/// `address` is not a loopback address and `exposure` does not allow that, or bind(2) or listen(2) fails.
pub async fn bind(address: SocketAddr, exposure: Exposure) -> Result<TcpListener, BindError> {
    if exposure == Exposure::Loopback && !address.ip().to_canonical().is_loopback() {
        return Err(BindError::NotLoopback { address });
    }
    TcpListener::bind(address).await.map_err(|source| BindError::Listen { address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn other_addresses_than_loopback_need_exposure() {
        for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
            let refused = bind(address.parse().unwrap(), Exposure::Loopback).await;
            assert!(matches!(refused, Err(BindError::NotLoopback { .. })), "{address}");
        }
        let taken = bind("127.0.0.1:0".parse().unwrap(), Exposure::Loopback).await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = bind(address, Exposure::Network).await.unwrap_err();
        assert!(matches!(error, BindError::Listen { .. }));
        assert!(error.to_string().starts_with(&format!("listen on {address}: ")), "{error}");
    }
}
