//! The sources of the node's own pods. `daemon/manage.rs` adds that of the API server, which needs the
//! connection to it.

use tracing::warn;

use super::machine::node_name;
use nodewarden_config::Config;
use nodewarden_pods::source::PodSource;
use nodewarden_pods::source::manifests::ManifestSource;
use nodewarden_pods::source::url::UrlSource;

/// The sources of the node's own pods that the configuration asks for, in the order of their precedence.
pub fn sources(config: &Config) -> Vec<Box<dyn PodSource>> {
    let (settings, node, in_cluster) = (&config.node, node_name(config), config.kubernetes.connects());
    let mut sources: Vec<Box<dyn PodSource>> = Vec::new();
    if let Some(dir) = &settings.static_pod_path {
        let source = ManifestSource::new(dir, &node, settings.file_check_frequency);
        sources.push(Box::new(if in_cluster { source.named_by_node() } else { source }));
    }
    if let Some(source) = UrlSource::new(&settings.static_pod_url, in_cluster.then_some(&node)) {
        sources.push(Box::new(source));
    }
    if sources.is_empty() {
        warn!("neither staticPodPath nor staticPodURL is set: there are no pods to manage");
    }
    sources
}
