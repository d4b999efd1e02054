//! What uses each image: containers, sandboxes, the runtime itself and manifests.

use std::collections::BTreeMap;

use nodewarden_cri::ListedContainer;
use nodewarden_cri::image_reference::normalized;
use nodewarden_manifest::{Pod, parts};
use nodewarden_model::{ImageSeen, Origin, Used};
use nodewarden_pods::spec::labels::{CONTAINER_NAME, POD_NAME, POD_NAMESPACE};

/// The users of each image by its id: the strongest reason, and the users as text for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Users(pub BTreeMap<String, (Used, Vec<String>)>);

impl Users {
    /// Why the image is in use; `None` if it is not. An image that the runtime has pinned is in use without
    /// any other user.
    pub fn of(&self, image: &ImageSeen) -> Option<Used> {
        let pinned = image.pinned.then_some(Used::Pinned);
        self.0.get(&image.id).map(|(used, _)| *used).or(pinned)
    }
}

/// An image that a manifest names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestImage {
    pub reference: String,
    /// What uses it, as text for people.
    pub user: String,
}

/// The images that a pod's manifest names.
pub fn manifest_images<'a>(pod: &'a Pod, origin: &'a Origin) -> impl Iterator<Item = ManifestImage> + 'a {
    let containers = parts(pod);
    containers.filter_map(move |container| {
        let user = format!("manifest {origin}: {}/{}/{}", pod.namespace, pod.name, container.name);
        Some(ManifestImage { reference: container.image.clone().filter(|image| !image.is_empty())?, user })
    })
}

/// Image ids by every name, and by references that the runtime has resolved.
#[derive(Debug, Default)]
pub struct ImageIndex<'a>(BTreeMap<String, &'a str>);

impl<'a> ImageIndex<'a> {
    /// `references`: ids that the runtime found for references.
    pub fn new(images: &'a [ImageSeen], references: &'a BTreeMap<String, Option<String>>) -> Self {
        let mut names = BTreeMap::new();
        for (reference, id) in references {
            if let Some(id) = id {
                names.insert(normalized(reference), &**id);
            }
        }
        for image in images {
            for name in image.names.iter().chain([&image.id]) {
                names.insert(normalized(name), &*image.id);
            }
        }
        Self(names)
    }

    /// The id of the image with this name or id.
    pub fn id(&self, reference: &str) -> Option<&'a str> {
        self.0.get(&normalized(reference)).copied().filter(|_| !reference.is_empty())
    }
}

/// Collects the users of all images; an image with several kinds of users is in use by the first kind in the
/// order of [`Used`].
pub fn users(
    images: &[ImageSeen],
    names: &ImageIndex<'_>,
    containers: &[ListedContainer],
    sandbox: Option<&str>,
    manifests: &[ManifestImage],
) -> Users {
    let mut users = Users::default();
    let mut add = |id: &str, used: Used, who: String| {
        let own = users.0.entry(id.to_owned()).or_insert_with(|| (used, Vec::new()));
        own.0 = own.0.min(used);
        if !who.is_empty() {
            own.1.push(who);
        }
    };
    for container in containers {
        // The name in its specification may refer to another image by now.
        let references = [&container.image_id, &container.image_ref, &container.image];
        if let Some(id) = references.into_iter().find_map(|reference| names.id(reference)) {
            add(id, Used::Container, user_name(container));
        }
    }
    if let Some(id) = sandbox.and_then(|reference| names.id(reference)) {
        add(id, Used::Sandbox, String::from("sandboxes"));
    }
    for image in images.iter().filter(|image| image.pinned) {
        add(&image.id, Used::Pinned, String::new());
    }
    for image_named in manifests {
        if let Some(id) = names.id(&image_named.reference) {
            add(id, Used::Manifest, image_named.user.clone());
        }
    }
    users
}

/// `namespace/pod/container`, or the container's id if its labels are incomplete.
fn user_name(container: &ListedContainer) -> String {
    let label = |name: &str| container.labels.get(name).map(String::as_str);
    match (label(POD_NAMESPACE), label(POD_NAME), label(CONTAINER_NAME)) {
        (Some(namespace), Some(pod), Some(name)) => format!("{namespace}/{pod}/{name}"),
        _ => format!("container {}", container.id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, name: &str) -> ImageSeen {
        ImageSeen { id: id.into(), names: vec![name.into()], size: 1, pinned: id == "pinned" }
    }

    fn container(id: &str, image_id: &str, image_ref: &str, spec: &str) -> ListedContainer {
        ListedContainer {
            id: id.into(),
            image_id: image_id.into(),
            image_ref: image_ref.into(),
            image: spec.into(),
            ..Default::default()
        }
    }

    #[test]
    fn images_are_matched_to_every_kind_of_user() {
        let images = [
            image("a", "docker.io/library/a:latest"),
            image("b", "docker.io/library/b:1"),
            image("c", "docker.io/library/c:1"),
            image("pause", "registry.k8s.io/pause:3.8"),
            image("pinned", "docker.io/library/p:1"),
            image("free", "docker.io/library/free:1"),
            image("odd", "docker.io/library/odd:1"),
        ];
        let mut labelled = container("1", "", "a", "docker.io/library/free:1");
        labelled.labels = [(POD_NAMESPACE, "shop"), (POD_NAME, "web"), (CONTAINER_NAME, "c")].into();
        let containers = [labelled, container("2", "", "b:1", ""), container("3", "gone", "gone", "c:1")];
        let manifest =
            |reference: &str| ManifestImage { reference: reference.into(), user: format!("m {reference}") };
        let manifests = ["a", "alias", "not-there"].map(manifest);
        let references =
            BTreeMap::from([("alias".to_owned(), Some("odd".to_owned())), ("not-there".into(), None)]);
        let names = ImageIndex::new(&images, &references);
        let users = users(&images, &names, &containers, Some("registry.k8s.io/pause:3.8"), &manifests);
        let expected = [
            ("a", Used::Container, vec!["shop/web/c", "m a"]),
            ("b", Used::Container, vec!["container 2"]),
            ("c", Used::Container, vec!["container 3"]),
            ("odd", Used::Manifest, vec!["m alias"]),
            ("pause", Used::Sandbox, vec!["sandboxes"]),
            ("pinned", Used::Pinned, vec![]),
        ];
        let expected = expected.map(|(id, used, who)| {
            (id.to_owned(), (used, who.into_iter().map(String::from).collect::<Vec<_>>()))
        });
        assert_eq!(users, Users(expected.into()));
    }
}
