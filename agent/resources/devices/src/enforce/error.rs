//! Errors of enforcement.

use std::io;
use std::path::PathBuf;

use nodewarden_machine::ebpf::KernelError;

/// A pod is not held to its policy.
#[derive(Debug, thiserror::Error)]
pub enum EnforceError {
    #[error("devices cannot be guarded here: {reason}")]
    Unavailable { reason: String },
    #[error("the pod's cgroup {path}: {source}")]
    Cgroup { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Tables(#[from] KernelError),
    #[error("{path} is where no pod is: below {kubepods} or one of its two classes")]
    NotAPod { path: String, kubepods: String },
    #[error("{path} was made anew since the eBPF program was attached to it: restart the agent")]
    RootReplaced { path: PathBuf },
    #[error("the v1 devices controller cannot audit: it can only refuse")]
    AuditOnV1,
    #[error(
        "{path} has cgroups below it already, and the v1 devices controller then no longer lets everything be \
         refused or allowed: it takes effect when the pod is started anew"
    )]
    HasChildren { path: PathBuf },
    #[error("read {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    #[error("write {line:?} to {path}: {source}")]
    Write { path: PathBuf, line: String, source: io::Error },
}
