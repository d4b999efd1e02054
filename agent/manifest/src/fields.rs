//! Finds parts of a manifest by name: containers, and paths of `fieldRef`.

use k8s_openapi::api::core::v1;

use super::{Container, Pod};

/// The container with that name, of any kind: its part of the manifest, and its resources.
pub fn find<'a>(pod: &'a Pod, name: &str) -> Option<(&'a v1::Container, &'a Container)> {
    let init = pod.spec.init_containers.iter().flatten().zip(&pod.init_containers);
    let ephemeral = pod.ephemeral_containers.iter().map(|own| (&own.spec, &own.container));
    let mut all = init.chain(pod.spec.containers.iter().zip(&pod.containers)).chain(ephemeral);
    all.find(|(manifest, _)| manifest.name == name)
}

/// All containers of the manifest, init containers first.
pub fn all(pod: &Pod) -> impl Iterator<Item = &v1::Container> {
    pod.spec.init_containers.iter().flatten().chain(&pod.spec.containers)
}

/// Whether the API server allows this field in a `downwardAPI` volume.
pub(crate) fn is_volume_field(path: &str) -> bool {
    matches!(
        path,
        "metadata.name" | "metadata.namespace" | "metadata.uid" | "metadata.labels" | "metadata.annotations"
    ) || subscript(path).is_some()
}

/// Splits `metadata.labels['key']` or `metadata.annotations['key']` into the name of the map and the key;
/// `None` for every other path.
pub fn subscript(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    matches!(map, "metadata.labels" | "metadata.annotations").then_some((map, key))
}
