//! What can keep the gRPC interface from running.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum GrpcError {
    #[error("another nodewarden agent{} serves on {}", pid.map(|p| format!(" (pid {p})")).unwrap_or_default(), path.display())]
    InUse { path: PathBuf, pid: Option<u32> },
    #[error("{} is there and is no socket: remove it or choose another path", path.display())]
    NotASocket { path: PathBuf },
    #[error("the gRPC socket's path has no file name: {}", path.display())]
    BadPath { path: PathBuf },
    #[error("gRPC socket: {call} {}: {source}", path.display())]
    Call { call: &'static str, path: PathBuf, source: io::Error },
    #[error("the gRPC server failed: {source}")]
    Serve { source: tonic::transport::Error },
}

impl GrpcError {
    /// For `map_err`: names the call and the path.
    pub(super) fn at<E: Into<io::Error>>(
        call: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::Call { call, path, source: source.into() }
    }
}
