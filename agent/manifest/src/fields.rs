//! Finds parts of a manifest by name: containers, and paths of `fieldRef`.

use std::ops::Deref;

use k8s_openapi::api::core::v1;

use super::{Container, Decoded, Pod};

/// A container of a manifest. It holds the pod's decoded spec.
#[derive(Debug, Clone)]
pub struct Part<'a>(Of<'a>);

#[derive(Debug, Clone)]
enum Of<'a> {
    Init(Decoded, usize),
    Regular(Decoded, usize),
    Ephemeral(&'a v1::Container),
}

impl Deref for Part<'_> {
    type Target = v1::Container;

    fn deref(&self) -> &v1::Container {
        match &self.0 {
            Of::Init(spec, at) => &spec.init_containers.as_deref().unwrap_or_default()[*at],
            Of::Regular(spec, at) => &spec.containers[*at],
            Of::Ephemeral(container) => container,
        }
    }
}

/// The container with that name, of any kind: its part of the manifest, and its resources.
pub fn find<'a>(pod: &'a Pod, name: &str) -> Option<(Part<'a>, &'a Container)> {
    parts(pod).zip(pod.declared()).find(|(manifest, _)| manifest.name == name)
}

/// All containers of the manifest: init containers, regular ones, ephemeral ones.
pub fn parts(pod: &Pod) -> impl Iterator<Item = Part<'_>> {
    let spec = pod.spec();
    let (init, regular) = (spec.init_containers.as_ref().map_or(0, Vec::len), spec.containers.len());
    let of_init = spec.clone();
    let init = (0..init).map(move |at| Of::Init(of_init.clone(), at));
    let regular = (0..regular).map(move |at| Of::Regular(spec.clone(), at));
    let ephemeral = pod.ephemeral_containers.iter().map(|own| Of::Ephemeral(&own.spec));
    init.chain(regular).chain(ephemeral).map(Part)
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
