//! The error of enforcement.

use std::io;
use std::path::PathBuf;

use nodewarden_machine::ebpf::KernelError;

/// Why a pod's device policy is not enforced.
#[derive(Debug, thiserror::Error)]
pub enum EnforceError {
    #[error("the pod's devices cannot be looked at: {reason}")]
    /// A path of the pod is on a file system that does not answer, or the agent has a fault.
    NotSeen {
        /// What went wrong.
        reason: String,
    },
    #[error("devices cannot be guarded on this machine: {reason}")]
    /// The machine lacks what enforcement needs.
    Unavailable {
        /// What is missing.
        reason: String,
    },
    #[error("the pod's cgroup {path}: {source}")]
    /// The pod's cgroup cannot be read.
    Cgroup {
        /// Directory of the cgroup.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    #[error("{0}")]
    /// The eBPF tables cannot be written.
    Tables(#[from] KernelError),
    #[error("{path} is not a pod's cgroup: expected below {kubepods} or one of its two QoS cgroups")]
    /// The cgroup is not where pods' cgroups are.
    NotAPod {
        /// Path of the cgroup.
        path: String,
        /// Path of the kubepods cgroup.
        kubepods: String,
    },
    #[error("{path} was created again since the eBPF program was attached to it: restart the agent")]
    /// The kubepods cgroup is another one than at the start.
    RootReplaced {
        /// Directory of the kubepods cgroup.
        path: PathBuf,
    },
    #[error("the v1 devices controller cannot audit: it can only refuse")]
    /// Mode Audit is not possible on cgroup v1.
    AuditOnV1,
    #[error(
        "{path} has cgroups below it already, and the v1 devices controller then no longer lets everything be \
         refused or allowed: it takes effect when the pod is started again"
    )]
    /// The pod had containers before it was guarded (cgroup v1).
    HasChildren {
        /// Directory of the pod's cgroup.
        path: PathBuf,
    },
    #[error("read {path}: {source}")]
    /// A file of the v1 devices controller cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    #[error("write {line:?} to {path}: {source}")]
    /// A file of the v1 devices controller cannot be written.
    Write {
        /// The file.
        path: PathBuf,
        /// What was written.
        line: String,
        /// The system's error.
        source: io::Error,
    },
}
