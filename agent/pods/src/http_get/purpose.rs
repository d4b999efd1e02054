//! The purpose of a request.

/// The purpose of a request, sent to the server as `User-Agent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A probe: `kube-probe/<version>`.
    Probe,
    /// A lifecycle hook: `kube-lifecycle/<version>`.
    Hook,
    /// The pods of `staticPodURL`: `nodewarden/<version>`.
    StaticPods,
}

impl Purpose {
    /// For probes and hooks the kubelet's `User-Agent` with our version (pkg/probe/http `userAgent`).
    pub(crate) fn user_agent(self) -> String {
        let program = match self {
            Self::Probe => "kube-probe",
            Self::Hook => "kube-lifecycle",
            Self::StaticPods => "nodewarden",
        };
        format!("{program}/{}", nodewarden_model::version())
    }
}
