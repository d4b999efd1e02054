//! The purpose of a request.

/// The purpose of a request, sent to the server as `User-Agent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A probe: `kube-probe/<version>`.
    Probe,
    /// A lifecycle hook: `kube-lifecycle/<version>`.
    Hook,
}

impl Purpose {
    /// The kubelet's `User-Agent` with our version (pkg/probe/http `userAgent`).
    pub(crate) fn user_agent(self) -> String {
        let purpose = match self {
            Self::Probe => "probe",
            Self::Hook => "lifecycle",
        };
        format!("kube-{purpose}/{}", nodewarden_model::version())
    }
}
