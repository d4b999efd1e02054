//! What a manifest asks of an HTTP server.

use k8s_openapi::api::core::v1;

use crate::resolve_port;

/// `httpGet` of a probe or a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGetAction {
    pub scheme: Scheme,
    /// None: the pod's address.
    pub host: Option<String>,
    pub port: u16,
    /// With its query.
    pub path: String,
    pub headers: Vec<(String, String)>,
}

/// How it is spoken to; certificates are not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Scheme {
    Http,
    Https,
}

impl HttpGetAction {
    /// None: it names a port that the container does not have.
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
    /// As in a URL.
    pub fn name(self) -> &'static str {
        self.into()
    }

    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}
