//! Origins: which source a pod comes from, and from what place there.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of the source whose origins are paths of files.
pub const MANIFESTS: &str = "manifests";

/// Name of the source whose pods are those of the Kubernetes API server.
pub const API: &str = "api";

/// Name of the source whose pods a web server has (`staticPodURL`), as in the kubelet
/// (`kubetypes.HTTPSource`). An origin there is `http:<url>`.
pub const HTTP: &str = "http";

/// Whether an origin is that of a pod of `staticPodURL`.
pub fn is_http(origin: &str) -> bool {
    source_of(origin) == HTTP
}

/// Whether an origin is that of a pod of the API server. Such a pod has a scheduler and controllers: it is
/// rejected where a manifest's pod waits, and nothing but its deletion removes it.
pub fn is_api(origin: &str) -> bool {
    source_of(origin) == API
}

/// The name of the source that an origin belongs to. Manifests are known by their paths alone, as records of
/// earlier versions have them; every other origin begins with the name of its source and a colon.
pub fn source_of(origin: &str) -> &str {
    match origin.split_once(':') {
        Some((source, _)) if !origin.starts_with('/') => source,
        _ => MANIFESTS,
    }
}

/// Why a pod ends that its source no longer has, in words for its status and its events.
pub fn removed_reason(origin: &str) -> String {
    match source_of(origin) {
        MANIFESTS => "its manifest is gone".to_owned(),
        API => "the API server no longer has it".to_owned(),
        HTTP => "staticPodURL no longer has it".to_owned(),
        source => format!("{source} no longer has it"),
    }
}

/// Why a pod ends in whose place its source has another one, in words for its status and its events.
pub fn replaced_reason(origin: &str) -> String {
    match source_of(origin) {
        MANIFESTS => "its manifest has another pod now".to_owned(),
        API => "the API server has another pod of its name now".to_owned(),
        HTTP => "staticPodURL has another pod in its place now".to_owned(),
        source => format!("{source} has another pod in its place now"),
    }
}

/// The origin of each pod that runs, by namespace and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodOrigins(BTreeMap<String, BTreeMap<String, Arc<str>>>);

impl PodOrigins {
    /// Sets the origin of a pod.
    pub fn set(&mut self, namespace: &str, name: &str, origin: &str) {
        self.0.entry(namespace.to_owned()).or_default().insert(name.to_owned(), origin.into());
    }

    /// Whether this is the pod's origin.
    pub fn is(&self, namespace: &str, name: &str, origin: &str) -> bool {
        self.0.get(namespace).and_then(|names| names.get(name)).is_some_and(|o| **o == *origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_paths_and_other_origins_begin_with_their_source() {
        for (origin, source) in [
            ("/etc/manifests/web.yaml", MANIFESTS),
            ("/etc/with:colon.yaml", MANIFESTS),
            ("web.yaml", MANIFESTS),
            ("api-server:shop/web", "api-server"),
            ("http:https://pods.example:8443/node", HTTP),
        ] {
            assert_eq!(source_of(origin), source, "{origin}");
        }
        assert_eq!(removed_reason("/m/web.yaml"), "its manifest is gone");
        assert_eq!(replaced_reason("/m/web.yaml"), "its manifest has another pod now");
        assert_eq!(removed_reason("api-server:shop/web"), "api-server no longer has it");
    }
}
