//! Describes a probe in one line, as `kubectl describe` does (kubectl pkg/describe `DescribeProbe`).

use std::fmt;

use super::{HttpGetProbe, ProbeHandler, ProbeSpec};

impl ProbeSpec {
    /// All settings in one line: `http-get http://:8080/x delay=0s timeout=1s period=10s #success=1
    /// #failure=3`.
    pub fn describe(&self) -> String {
        format!(
            "{} delay={}s timeout={}s period={}s #success={} #failure={}",
            self.handler,
            self.initial_delay.as_secs(),
            self.timeout.as_secs(),
            self.period.as_secs(),
            self.success_threshold,
            self.failure_threshold,
        )
    }
}

impl fmt::Display for ProbeHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(command) => write!(f, "exec [{}]", command.join(" ")),
            Self::HttpGet(get) => write!(f, "http-get {}", get.url("")),
            Self::TcpSocket { host, port } => {
                write!(f, "tcp-socket {}", host_port(host.as_deref().unwrap_or_default(), *port))
            }
            Self::Grpc { port, service } if service.is_empty() => write!(f, "grpc <pod>:{port}"),
            Self::Grpc { port, service } => write!(f, "grpc <pod>:{port} {service}"),
        }
    }
}

impl HttpGetProbe {
    /// The URL for display; `default` is the host if the manifest names none.
    pub fn url(&self, default: &str) -> String {
        let slash = if self.path.starts_with('/') { "" } else { "/" };
        let host = self.host.as_deref().unwrap_or(default);
        format!("{}://{}{slash}{}", self.scheme.name(), host_port(host, self.port), self.path)
    }
}

/// Host and port, with brackets around an IPv6 address.
pub fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
