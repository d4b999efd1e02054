//! Objects of a pod, for tests.

use std::sync::Arc;

use super::{ConfigMap, ObjectError, ObjectKind, PodObjects, Secret, Service};

impl PodObjects {
    /// With a config map, or without it: the API server does not have it.
    pub(crate) fn with_config_map(mut self, name: &str, map: Option<ConfigMap>) -> Self {
        let missing = ObjectError::NotFound { kind: ObjectKind::ConfigMap, name: name.to_owned() };
        self.config_maps.insert(name.to_owned(), map.map(Arc::new).ok_or(missing));
        self
    }

    /// With a secret, or without it: the API server does not have it.
    pub(crate) fn with_secret(mut self, name: &str, secret: Option<Secret>) -> Self {
        let missing = ObjectError::NotFound { kind: ObjectKind::Secret, name: name.to_owned() };
        self.secrets.insert(name.to_owned(), secret.map(Arc::new).ok_or(missing));
        self
    }

    /// With a token for this audience and life.
    pub(crate) fn with_token(mut self, audience: &str, seconds: i64, token: &str) -> Self {
        self.tokens.insert((audience.to_owned(), seconds), Ok(token.into()));
        self
    }

    /// With these services.
    pub(crate) fn with_services(mut self, services: Vec<Service>) -> Self {
        self.services = Some(Ok(services));
        self
    }
}
