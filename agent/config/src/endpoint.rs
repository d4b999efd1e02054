//! The address of a container runtime.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::fields::Fields;

/// A container runtime's address: `unix:///run/containerd/containerd.sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint(PathBuf);

impl Endpoint {
    /// Parses `unix://` with an absolute path, or a bare absolute path, which the kubelet also accepts.
    pub fn parse(text: &str) -> Option<Self> {
        let path = text.strip_prefix("unix://").unwrap_or(text);
        (path.starts_with('/') && !path.contains('\0')).then(|| Self(PathBuf::from(path)))
    }

    /// Reads a key; an empty text means none, as in the kubelet.
    pub(crate) fn take(f: &mut Fields<'_>, key: &'static str) -> Option<Self> {
        f.text(key, "the runtime's Unix socket as unix:///path", |t| match t {
            "" => Some(None),
            t => Self::parse(t).map(Some),
        })
        .flatten()
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.0.display())
    }
}
