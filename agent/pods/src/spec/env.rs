//! A container's environment (kubelet `makeEnvironmentVariables`), and the texts that refer to it.

mod services;

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{self, EnvVarSource};

use super::field::field;
use super::{Host, SpecError};
use crate::fields::FieldError;
use crate::fields::resource_value;
use crate::objects::{ConfigMap, ObjectError, PodObjects, Secret};
use nodewarden_manifest::{Expander, MAX_EXPANDED, Pod, TooLong};

/// Variables in the manifest's order; of two with one name the later value counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Environment {
    all: Vec<(String, String)>,
    /// The place of each name in `all`.
    places: HashMap<String, usize>,
    /// Of services. The manifest's variables of the same names replace them.
    services: BTreeMap<String, String>,
    /// Bounds the variables and everything that is expanded with them.
    expander: Expander,
}

/// What the values of variables are read from.
#[derive(Clone, Copy)]
struct Sources<'a> {
    pod: &'a Pod,
    container: &'a v1::Container,
    ips: &'a [IpAddr],
    host: &'a Host<'a>,
    objects: &'a PodObjects,
}

impl Environment {
    pub(super) fn of(
        pod: &Pod,
        container: &v1::Container,
        ips: &[IpAddr],
        host: &Host,
        objects: &PodObjects,
    ) -> Result<Self, SpecError> {
        let sources = Sources { pod, container, ips, host, objects };
        let links = pod.spec().enable_service_links.unwrap_or(true);
        let services = services::variables(objects.services()?, &pod.namespace, links);
        let expander = Expander::new(MAX_EXPANDED);
        let mut all = Self { all: Vec::new(), places: HashMap::new(), services, expander };
        for (name, value) in sources.env_from()? {
            all.count(&name, &name)?;
            all.count(&name, &value)?;
            all.set(&name, value);
        }
        for variable in container.env.iter().flatten() {
            let (name, text) = (&variable.name, variable.value.as_deref().unwrap_or_default());
            all.count(name, name)?;
            let value = match &variable.value_from {
                Some(source) if text.is_empty() => {
                    // An optional key that does not exist: the variable is not set.
                    let Some(value) = sources.value(name, source)? else { continue };
                    all.count(name, &value)?;
                    value
                }
                // Only variables defined earlier are known.
                _ => all.expand(text).map_err(too_long(name))?,
            };
            all.set(name, value);
        }
        for (name, value) in std::mem::take(&mut all.services) {
            if all.get(&name).is_none() {
                all.count(&name, &name)?;
                all.count(&name, &value)?;
                all.set(&name, value);
            }
        }
        Ok(all)
    }

    fn set(&mut self, name: &str, value: String) {
        match self.places.get(name) {
            Some(place) => self.all[*place].1 = value,
            None => {
                self.places.insert(name.to_owned(), self.all.len());
                self.all.push((name.to_owned(), value));
            }
        }
    }

    /// Counts a part of the variable of that name.
    fn count(&mut self, name: &str, part: &str) -> Result<(), SpecError> {
        self.expander.count(part).map_err(too_long(name))
    }

    /// Adds variables before all others; existing ones of the same name take precedence.
    pub(super) fn add_before(&mut self, more: &BTreeMap<String, String>) {
        let new = more.iter().filter(|(name, _)| self.get(name).is_none());
        let new: Vec<_> = new.map(|(name, value)| (name.clone(), value.clone())).collect();
        self.all.splice(0..0, new);
        self.places = self.all.iter().enumerate().map(|(place, (name, _))| (name.clone(), place)).collect();
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.places.get(name).map(|place| self.all[*place].1.as_str())
    }

    /// A text with its references put in.
    fn expand(&mut self, text: &str) -> Result<String, TooLong> {
        let Self { all, places, services, expander } = self;
        expander.expand(text, |name| match places.get(name) {
            Some(place) => Some(all[*place].1.as_str()),
            None => services.get(name).map(String::as_str),
        })
    }

    /// The texts of the field of that name, with their references put in.
    ///
    /// # Errors
    /// With the variables they have too many bytes.
    pub(super) fn expand_all(
        &mut self,
        field: &'static str,
        texts: Option<&Vec<String>>,
    ) -> Result<Vec<String>, SpecError> {
        let texts = texts.into_iter().flatten().map(|text| self.expand(text));
        texts.collect::<Result<_, _>>().map_err(|source| SpecError::CommandTooLong { field, source })
    }

    pub(super) fn into_pairs(self) -> Vec<(String, String)> {
        self.all
    }
}

fn too_long(name: &str) -> impl FnOnce(TooLong) -> SpecError {
    let name = name.to_owned();
    move |source| SpecError::EnvTooLong { name, source }
}

impl<'a> Sources<'a> {
    /// The variables of `envFrom`: every key of each object, with the prefix.
    fn env_from(self) -> Result<Vec<(String, String)>, SpecError> {
        let mut all = Vec::new();
        for source in self.container.env_from.iter().flatten() {
            let prefix = source.prefix.as_deref().unwrap_or_default();
            let mut add = |key: &str, value: String| all.push((format!("{prefix}{key}"), value));
            if let Some(named) = &source.config_map_ref {
                if let Some(map) = self.config_map(&named.name, named.optional)? {
                    map.data.iter().for_each(|(key, value)| add(key, value.clone()));
                }
            } else if let Some(named) = &source.secret_ref
                && let Some(secret) = self.secret(&named.name, named.optional)?
            {
                secret.data.iter().for_each(|(key, value)| add(key, text(value)));
            }
        }
        all.retain(|(name, _)| is_name(name));
        Ok(all)
    }

    /// The value of a variable; `None` for an optional key that does not exist.
    fn value(self, name: &str, source: &EnvVarSource) -> Result<Option<String>, SpecError> {
        let Self { pod, container, ips, host, .. } = self;
        let fail = |source| SpecError::Env { name: name.to_owned(), source };
        if let Some(selector) = &source.field_ref {
            field(&selector.field_path, pod, ips, host).map(Some).map_err(fail)
        } else if let Some(selector) = &source.resource_field_ref {
            resource_value(selector, Some(&container.name), pod, host.node).map(Some).map_err(fail)
        } else if let Some(named) = &source.config_map_key_ref {
            let map = self.config_map(&named.name, named.optional)?;
            let value = map.and_then(|map| map.data.get(&named.key).cloned());
            self.keyed(value, named.optional, &named.key, "ConfigMap", &named.name)
        } else if let Some(named) = &source.secret_key_ref {
            let secret = self.secret(&named.name, named.optional)?;
            let value = secret.and_then(|secret| secret.data.get(&named.key).map(|value| text(value)));
            self.keyed(value, named.optional, &named.key, "Secret", &named.name)
        } else {
            Err(fail(FieldError::NeedsCluster))
        }
    }

    fn keyed(
        self,
        value: Option<String>,
        optional: Option<bool>,
        key: &str,
        kind: &'static str,
        name: &str,
    ) -> Result<Option<String>, SpecError> {
        if value.is_some() || optional.unwrap_or(false) {
            return Ok(value);
        }
        let (key, name) = (key.to_owned(), name.to_owned());
        Err(SpecError::NoKey { key, kind, namespace: self.pod.namespace.clone(), name })
    }

    /// `None` if it does not exist and is optional.
    fn config_map(self, name: &str, optional: Option<bool>) -> Result<Option<&'a ConfigMap>, ObjectError> {
        unless_optional(self.objects.config_map(name), optional)
    }

    /// `None` if it does not exist and is optional.
    fn secret(self, name: &str, optional: Option<bool>) -> Result<Option<&'a Secret>, ObjectError> {
        unless_optional(self.objects.secret(name), optional)
    }
}

fn unless_optional<T>(
    found: Result<&T, ObjectError>,
    optional: Option<bool>,
) -> Result<Option<&T>, ObjectError> {
    match found {
        Err(error) if optional.unwrap_or(false) && error.is_not_found() => Ok(None),
        found => found.map(Some),
    }
}

/// A value of a secret as text; environments of containers are no place for other bytes (CRI has strings).
fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// `IsRelaxedEnvVarName` (apimachinery util/validation).
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=')
}

/// The keys of `envFrom` that are no names of variables, as an event's messages (kubelet
/// `InvalidEnvironmentVariableNames`).
pub(super) fn skipped(pod: &Pod, container: &v1::Container, objects: &PodObjects) -> Vec<String> {
    let mut messages = Vec::new();
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let named = |name: &str, kind: &str, keys: Vec<&String>| {
            let keys = keys.into_iter().map(|key| format!("{prefix}{key}")).filter(|key| !is_name(key));
            let keys = keys.collect::<Vec<_>>();
            (!keys.is_empty()).then(|| {
                let keys = keys.join(", ");
                format!(
                    "Keys [{keys}] from the EnvFrom {kind} {}/{name} were skipped since they are considered invalid environment variable names.",
                    pod.namespace
                )
            })
        };
        if let Some(map) = &source.config_map_ref {
            let found = objects.config_map(&map.name).ok();
            messages
                .extend(found.and_then(|found| named(&map.name, "configMap", found.data.keys().collect())));
        }
        if let Some(secret) = &source.secret_ref {
            let found = objects.secret(&secret.name).ok();
            messages
                .extend(found.and_then(|found| named(&secret.name, "secret", found.data.keys().collect())));
        }
    }
    messages
}

#[cfg(test)]
mod tests;
