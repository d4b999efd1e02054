//! What one pod needs of the objects that it names, at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1;

use super::named::{in_environment, in_volumes};
use super::{ConfigMap, NamedObject, ObjectError, ObjectKind, Objects, Secret, Service, TokenRequest};
use nodewarden_manifest::volume_source::Source;
use nodewarden_manifest::{Pod, find};

/// Valid for an hour, if the manifest does not say (`SetDefaults_ServiceAccountTokenProjection`).
const EXPIRATION_SECONDS: i64 = 3600;

/// What a pod's volumes, and the environment of one of its containers, need.
#[derive(Debug, Clone, Default)]
pub struct PodObjects {
    pub(super) config_maps: BTreeMap<String, Result<Arc<ConfigMap>, ObjectError>>,
    pub(super) secrets: BTreeMap<String, Result<Arc<Secret>, ObjectError>>,
    pub(super) tokens: BTreeMap<(String, i64), Result<Arc<str>, ObjectError>>,
    /// `None` for a pod without an API server.
    pub(super) services: Option<Result<Vec<Service>, ObjectError>>,
}

impl PodObjects {
    /// A config map.
    ///
    /// # Errors
    /// It could not be had.
    pub fn config_map(&self, name: &str) -> Result<&ConfigMap, ObjectError> {
        had(&self.config_maps, ObjectKind::ConfigMap, name).map(AsRef::as_ref)
    }

    /// A secret.
    ///
    /// # Errors
    /// It could not be had.
    pub fn secret(&self, name: &str) -> Result<&Secret, ObjectError> {
        had(&self.secrets, ObjectKind::Secret, name).map(AsRef::as_ref)
    }

    /// The token that a projection asks for.
    ///
    /// # Errors
    /// It could not be had.
    pub fn token(&self, asked: &v1::ServiceAccountTokenProjection) -> Result<&str, ObjectError> {
        let found = self.tokens.get(&token_key(asked));
        let none = || ObjectError::NoApiServer { kind: ObjectKind::ServiceAccount, name: String::new() };
        found.ok_or_else(none)?.as_ref().map(AsRef::as_ref).map_err(Clone::clone)
    }

    /// The services; none for a pod without an API server.
    ///
    /// # Errors
    /// They could not be had.
    pub fn services(&self) -> Result<&[Service], ObjectError> {
        match &self.services {
            None => Ok(&[]),
            Some(services) => services.as_deref().map_err(Clone::clone),
        }
    }
}

fn had<'a, T>(
    all: &'a BTreeMap<String, Result<Arc<T>, ObjectError>>,
    kind: ObjectKind,
    name: &str,
) -> Result<&'a Arc<T>, ObjectError> {
    let none = || ObjectError::NoApiServer { kind, name: name.to_owned() };
    all.get(name).ok_or_else(none)?.as_ref().map_err(Clone::clone)
}

/// Gathers what the pod's volumes need, and the environment of `container` if one is named. Everything is
/// asked for at once, since an API server that does not answer lets each wait.
pub async fn gather(objects: &dyn Objects, pod: &Pod, container: Option<&str>) -> PodObjects {
    let container = container.and_then(|name| find(pod, name));
    let mut names = in_volumes(pod);
    if let Some((container, _)) = &container {
        names.extend(in_environment(container.env.as_deref(), container.env_from.as_deref()));
    }
    let (maps, secrets): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|named| named.kind == ObjectKind::ConfigMap);
    let namespace = pod.namespace.as_str();
    let config_maps = maps.into_iter().map(|NamedObject { name, .. }| async move {
        let found = objects.config_map(namespace, &name).await;
        (name, found)
    });
    let secrets = secrets.into_iter().map(|NamedObject { name, .. }| async move {
        let found = objects.secret(namespace, &name).await;
        (name, found)
    });
    let spec = pod.spec();
    let tokens = tokens(&spec).map(|asked| async move {
        let request = request(pod, asked);
        (token_key(asked), objects.token(&request).await)
    });
    let services = async {
        match container {
            Some(_) => Some(objects.services(namespace).await),
            None => None,
        }
    };
    let (config_maps, secrets, tokens, services) =
        tokio::join!(join_all(config_maps), join_all(secrets), join_all(tokens), services);
    PodObjects {
        config_maps: config_maps.into_iter().collect(),
        secrets: secrets.into_iter().collect(),
        tokens: tokens.into_iter().collect(),
        services,
    }
}

/// The pod's secrets for pulling images, in its order; those that cannot be had are left out, as by a
/// kubelet.
pub async fn pull_secrets(objects: &dyn Objects, pod: &Pod) -> Vec<Arc<Secret>> {
    let mut all = Vec::new();
    for named in pod.spec().image_pull_secrets.iter().flatten().filter(|named| !named.name.is_empty()) {
        match objects.secret(&pod.namespace, &named.name).await {
            Ok(secret) => all.push(secret),
            Err(error) => tracing::warn!(
                pod = %format_args!("{}/{}", pod.namespace, pod.name),
                "{error}: the image is pulled without it"
            ),
        }
    }
    all
}

/// The tokens that the pod's volumes ask for.
fn tokens(spec: &v1::PodSpec) -> impl Iterator<Item = &v1::ServiceAccountTokenProjection> {
    let sources = spec.volumes.iter().flatten().filter_map(Source::of);
    let projected = sources.filter_map(|source| match source {
        Source::Projected(asked) => asked.sources.as_deref(),
        _ => None,
    });
    projected.flatten().filter_map(|part| part.service_account_token.as_ref())
}

fn token_key(asked: &v1::ServiceAccountTokenProjection) -> (String, i64) {
    (asked.audience.clone().unwrap_or_default(), asked.expiration_seconds.unwrap_or(EXPIRATION_SECONDS))
}

fn request(pod: &Pod, asked: &v1::ServiceAccountTokenProjection) -> TokenRequest {
    let (audience, expiration_seconds) = token_key(asked);
    let spec = pod.spec();
    let account = spec.service_account_name.as_deref().filter(|name| !name.is_empty());
    TokenRequest {
        namespace: pod.namespace.clone(),
        account: account.unwrap_or("default").to_owned(),
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        audience,
        expiration_seconds,
    }
}
