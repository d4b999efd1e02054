//! Which objects a pod names.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1;

use super::ObjectKind;
use nodewarden_manifest::Pod;
use nodewarden_manifest::volume_source::Source;

/// An object of the pod's namespace that is watched: a config map or a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedObject {
    /// Config map or secret.
    pub kind: ObjectKind,
    /// Its name.
    pub name: String,
}

/// The config maps and secrets that a pod names: in volumes, in the environment of all its containers, and
/// for pulling images (kubelet `getConfigMapNames`, `getSecretNames`).
pub fn named(pod: &Pod) -> BTreeSet<NamedObject> {
    let mut all = in_volumes(pod);
    let spec = &pod.spec();
    let init = spec.init_containers.iter().flatten();
    for container in init.chain(&spec.containers) {
        all.extend(in_environment(container.env.as_deref(), container.env_from.as_deref()));
    }
    for container in spec.ephemeral_containers.iter().flatten() {
        all.extend(in_environment(container.env.as_deref(), container.env_from.as_deref()));
    }
    all.extend(
        spec.image_pull_secrets
            .iter()
            .flatten()
            .filter_map(|secret| object(ObjectKind::Secret, &secret.name)),
    );
    all
}

/// The config maps and secrets of the pod's volumes.
pub(super) fn in_volumes(pod: &Pod) -> BTreeSet<NamedObject> {
    let mut all = BTreeSet::new();
    for source in pod.spec().volumes.iter().flatten().filter_map(Source::of) {
        match source {
            Source::ConfigMap(asked) => all.extend(object(ObjectKind::ConfigMap, &asked.name)),
            Source::Secret(asked) => {
                all.extend(object(ObjectKind::Secret, asked.secret_name.as_deref().unwrap_or_default()));
            }
            Source::Projected(asked) => {
                for part in asked.sources.iter().flatten() {
                    all.extend(
                        part.config_map.iter().filter_map(|map| object(ObjectKind::ConfigMap, &map.name)),
                    );
                    all.extend(
                        part.secret.iter().filter_map(|secret| object(ObjectKind::Secret, &secret.name)),
                    );
                }
            }
            _ => {}
        }
    }
    all
}

/// Those of a container's environment.
pub(super) fn in_environment(
    env: Option<&[v1::EnvVar]>,
    env_from: Option<&[v1::EnvFromSource]>,
) -> BTreeSet<NamedObject> {
    let mut all = BTreeSet::new();
    for source in env.unwrap_or_default().iter().filter_map(|variable| variable.value_from.as_ref()) {
        all.extend(
            source.config_map_key_ref.iter().filter_map(|map| object(ObjectKind::ConfigMap, &map.name)),
        );
        all.extend(
            source.secret_key_ref.iter().filter_map(|secret| object(ObjectKind::Secret, &secret.name)),
        );
    }
    for source in env_from.unwrap_or_default() {
        all.extend(source.config_map_ref.iter().filter_map(|map| object(ObjectKind::ConfigMap, &map.name)));
        all.extend(source.secret_ref.iter().filter_map(|secret| object(ObjectKind::Secret, &secret.name)));
    }
    all
}

/// `None` for an empty name, which names nothing.
fn object(kind: ObjectKind, name: &str) -> Option<NamedObject> {
    (!name.is_empty()).then(|| NamedObject { kind, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::fixture::pod;

    #[test]
    fn a_pod_names_objects_in_volumes_environment_and_for_images() {
        let pod = pod("
imagePullSecrets: [{name: pull}, {}]
volumes:
- {name: a, configMap: {name: in-volume}}
- {name: b, secret: {secretName: s-volume}}
- {name: c, projected: {sources: [{configMap: {name: projected}}, {secret: {name: s-projected}}, {downwardAPI: {}}]}}
initContainers: [{name: i, envFrom: [{configMapRef: {name: all}}, {secretRef: {name: s-all}}]}]
containers:
- name: c
  env:
  - {name: A, valueFrom: {configMapKeyRef: {name: key, key: k}}}
  - {name: B, valueFrom: {secretKeyRef: {name: s-key, key: k}}}
ephemeralContainers: [{name: e, envFrom: [{configMapRef: {name: debug}}]}]
");
        let names = |kind: ObjectKind| {
            let all = named(&pod).into_iter().filter(|object| object.kind == kind);
            all.map(|object| object.name).collect::<Vec<_>>()
        };
        assert_eq!(names(ObjectKind::ConfigMap), ["all", "debug", "in-volume", "key", "projected"]);
        assert_eq!(names(ObjectKind::Secret), ["pull", "s-all", "s-key", "s-projected", "s-volume"]);
        assert_eq!(in_volumes(&pod).len(), 4);
    }
}
