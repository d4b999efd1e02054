//! What a request is for.

/// What a request is for: the server is told by `User-Agent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Probe,
    Hook,
}

impl Purpose {
    /// The kubelet's, with our version (pkg/probe/http `userAgent`).
    pub(crate) fn user_agent(self) -> String {
        let purpose = match self {
            Self::Probe => "probe",
            Self::Hook => "lifecycle",
        };
        format!("kube-{purpose}/{}", nodewarden_model::version())
    }
}
