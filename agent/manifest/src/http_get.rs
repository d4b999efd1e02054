//! The action `httpGet` of a probe or lifecycle hook.

use k8s_openapi::api::core::v1;

use crate::resolve_port;

/// `httpGet` of a probe or lifecycle hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGetAction {
    /// HTTP unless the manifest sets HTTPS.
    pub scheme: Scheme,
    /// The host to connect to; `None` for the pod's address.
    pub host: Option<String>,
    /// The port, resolved if the manifest gives the name of one of the container's ports.
    pub port: u16,
    /// Path with query; may be empty or lack the leading slash.
    pub path: String,
    /// Names and values in the order of the manifest; a name may occur several times.
    pub headers: Vec<(String, String)>,
}

/// The scheme of the request; certificates are not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl HttpGetAction {
    /// The action of a manifest; `None` if it names a port that the container does not have.
    pub fn of(asked: &v1::HTTPGetAction, container: &v1::Container) -> Option<Self> {
        let headers = asked.http_headers.iter().flatten().map(|h| (h.name.clone(), h.value.clone()));
        Some(Self {
            scheme: if asked.scheme.as_deref() == Some("HTTPS") { Scheme::Https } else { Scheme::Http },
            host: asked.host.clone().filter(|host| !host.is_empty()),
            port: resolve_port(&asked.port, container)?,
            path: asked.path.clone().unwrap_or_default(),
            headers: headers.collect(),
        })
    }
}

impl Scheme {
    /// The name in a URL: `http` or `https`.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The port that a URL with this scheme may leave out: 80 or 443.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}
