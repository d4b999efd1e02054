//! Origins: which source a pod comes from, and from what place there.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The place that a pod is written in. It stays the same when the agent starts again, since records of pods
/// keep it.
///
/// As text, a manifest's origin is the path of its file, and every other one is
/// `<name of the source>:<place there>`. Records, the state file of the hierarchy and the API have the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Origin {
    /// The manifest file with this path.
    Manifest(Arc<str>),
    /// The pod of this `<namespace>/<name>` at the Kubernetes API server.
    Api(Arc<str>),
    /// A list of pods that a web server has at this URL (`staticPodURL`).
    Http(Arc<str>),
    /// A place of any other source, as text: the name of the source, a colon, and its own key.
    Other(Arc<str>),
}

impl Origin {
    /// Name of the source whose origins are paths of files.
    pub const MANIFESTS: &str = "manifests";

    /// Name of the source whose pods are those of the Kubernetes API server.
    pub const API: &str = "api";

    /// Name of the source whose pods a web server has (`staticPodURL`), as in the kubelet
    /// (`kubetypes.HTTPSource`).
    pub const HTTP: &str = "http";

    /// The origin of the pod of this `<namespace>/<name>` at the API server.
    pub fn api(key: impl fmt::Display) -> Self {
        Self::Api(key.to_string().into())
    }

    /// The name of the source that it belongs to.
    pub fn source(&self) -> &str {
        match self {
            Self::Manifest(_) => Self::MANIFESTS,
            Self::Api(_) => Self::API,
            Self::Http(_) => Self::HTTP,
            Self::Other(text) => text.split_once(':').map_or(&**text, |(source, _)| source),
        }
    }

    /// Whether the pod is one of the API server. Such a pod has a scheduler and controllers: it is rejected
    /// where a manifest's pod waits, and nothing but its deletion removes it.
    pub fn is_api(&self) -> bool {
        matches!(self, Self::Api(_))
    }

    /// Why a pod ends that its source no longer has, in words for its status and its events.
    pub fn removed_reason(&self) -> String {
        match self {
            Self::Manifest(_) => "its manifest is gone".to_owned(),
            Self::Api(_) => "the API server no longer has it".to_owned(),
            Self::Http(_) => "staticPodURL no longer has it".to_owned(),
            Self::Other(_) => format!("{} no longer has it", self.source()),
        }
    }

    /// Why a pod ends in whose place its source has another one, in words for its status and its events.
    pub fn replaced_reason(&self) -> String {
        match self {
            Self::Manifest(_) => "its manifest has another pod now".to_owned(),
            Self::Api(_) => "the API server has another pod of its name now".to_owned(),
            Self::Http(_) => "staticPodURL has another pod in its place now".to_owned(),
            Self::Other(_) => format!("{} has another pod in its place now", self.source()),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest(text) | Self::Other(text) => f.write_str(text),
            Self::Api(place) | Self::Http(place) => write!(f, "{}:{place}", self.source()),
        }
    }
}

/// Reads the text. A text that begins with a slash, or has no colon, is the path of a manifest.
impl From<&str> for Origin {
    fn from(text: &str) -> Self {
        match text.split_once(':') {
            _ if text.starts_with('/') => Self::Manifest(text.into()),
            None => Self::Manifest(text.into()),
            Some((Self::API, place)) => Self::Api(place.into()),
            Some((Self::HTTP, place)) => Self::Http(place.into()),
            Some(_) => Self::Other(text.into()),
        }
    }
}

impl From<String> for Origin {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Origin> for String {
    fn from(origin: Origin) -> Self {
        origin.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_records_is_read_and_written_as_it_was() {
        let other = |text: &str| Origin::Other(text.into());
        for (text, origin, source) in [
            ("/etc/manifests/web.yaml", Origin::Manifest("/etc/manifests/web.yaml".into()), "manifests"),
            ("/etc/with:colon.yaml", Origin::Manifest("/etc/with:colon.yaml".into()), "manifests"),
            ("/api:shop/web", Origin::Manifest("/api:shop/web".into()), "manifests"),
            ("web.yaml", Origin::Manifest("web.yaml".into()), "manifests"),
            ("", Origin::Manifest("".into()), "manifests"),
            ("api:shop/web", Origin::Api("shop/web".into()), "api"),
            ("http:https://h:8443/node", Origin::Http("https://h:8443/node".into()), "http"),
            ("api-server:shop/web", other("api-server:shop/web"), "api-server"),
            ("memory:a:b", other("memory:a:b"), "memory"),
        ] {
            assert_eq!(Origin::from(text), origin);
            assert_eq!((origin.source(), origin.is_api()), (source, text == "api:shop/web"), "{text}");
            assert_eq!(serde_json::to_value(&origin).unwrap(), text);
            assert_eq!(serde_json::from_value::<Origin>(text.into()).unwrap(), origin);
        }
        assert!(size_of::<Origin>() <= 24, "{}", size_of::<Origin>());
    }

    #[test]
    fn the_reason_names_the_source() {
        for (origin, removed, replaced) in [
            ("/m/web.yaml", "its manifest is gone", "its manifest has another pod now"),
            (
                "api:shop/web",
                "the API server no longer has it",
                "the API server has another pod of its name now",
            ),
            (
                "http:http://h/",
                "staticPodURL no longer has it",
                "staticPodURL has another pod in its place now",
            ),
            ("memory:a", "memory no longer has it", "memory has another pod in its place now"),
        ] {
            let origin = Origin::from(origin);
            assert_eq!(
                (origin.removed_reason(), origin.replaced_reason()),
                (removed.into(), replaced.into())
            );
        }
    }
}
