//! What an operator sets of probes: `nodewarden.probes`.

/// How many probes of each handler are under way at most; others wait for their turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSettings {
    /// `maxExec`: commands in containers, which cost the runtime a process each.
    pub max_exec: usize,
    /// `maxHttpGet`.
    pub max_http_get: usize,
    /// `maxTcpSocket`.
    pub max_tcp_socket: usize,
    /// `maxGrpc`.
    pub max_grpc: usize,
}

impl Default for ProbeSettings {
    fn default() -> Self {
        Self { max_exec: 32, max_http_get: 512, max_tcp_socket: 512, max_grpc: 256 }
    }
}
