//! The one list of all sources of pods.

use tracing::warn;

use super::machine::node_name;
use nodewarden_config::Config;
use nodewarden_pods::source::manifests::ManifestSource;
use nodewarden_pods::source::{PodSource, PodSources};
use nodewarden_pods::status::PodStatusCache;

/// The sources that the configuration asks for, in the order of their precedence. A source that reports the
/// status of its pods back subscribes to `_status`.
pub fn sources(config: &Config, _status: &PodStatusCache) -> PodSources {
    let settings = &config.node;
    let mut sources: Vec<Box<dyn PodSource>> = Vec::new();
    match &settings.static_pod_path {
        Some(dir) => {
            let source = ManifestSource::new(dir, &node_name(config), settings.file_check_frequency);
            sources.push(Box::new(source));
        }
        None => warn!("staticPodPath is not set: there are no pods to manage"),
    }
    PodSources::new(sources)
}
