//! The purpose of a request.

use std::sync::LazyLock;

use hyper::header::HeaderValue;

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
    /// The value of `User-Agent`: for probes and hooks the kubelet's with our version (pkg/probe/http
    /// `userAgent`).
    pub(crate) fn user_agent(self) -> HeaderValue {
        static PROBE: LazyLock<HeaderValue> = LazyLock::new(|| with_version("kube-probe"));
        static HOOK: LazyLock<HeaderValue> = LazyLock::new(|| with_version("kube-lifecycle"));
        static STATIC_PODS: LazyLock<HeaderValue> = LazyLock::new(|| with_version("nodewarden"));
        let value = match self {
            Self::Probe => &PROBE,
            Self::Hook => &HOOK,
            Self::StaticPods => &STATIC_PODS,
        };
        HeaderValue::clone(value)
    }
}

/// Without the version if a header cannot contain it.
fn with_version(program: &'static str) -> HeaderValue {
    let whole = HeaderValue::try_from(format!("{program}/{}", nodewarden_model::version()));
    whole.unwrap_or(HeaderValue::from_static(program))
}
