//! A container's environment (kubelet `makeEnvironmentVariables`), and the texts that refer to it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{self, EnvVarSource};

use super::field::field;
use super::{Host, SpecError};
use crate::fields::FieldError;
use crate::fields::resource_value;
use nodewarden_manifest::Pod;
use nodewarden_manifest::expand;

/// Variables in the manifest's order; of two with one name the later value counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Environment(Vec<(String, String)>);

impl Environment {
    pub(super) fn of(
        pod: &Pod,
        container: &v1::Container,
        ips: &[IpAddr],
        host: &Host,
    ) -> Result<Self, SpecError> {
        let mut all = Self::default();
        for variable in container.env.iter().flatten() {
            let text = variable.value.as_deref().unwrap_or_default();
            let value = match &variable.value_from {
                Some(source) if text.is_empty() => all
                    .sourced(source, pod, container, ips, host)
                    .map_err(|source| SpecError::Env { name: variable.name.clone(), source })?,
                // Only variables defined earlier are known.
                _ => all.expand(text),
            };
            all.set(&variable.name, value);
        }
        Ok(all)
    }

    fn sourced(
        &self,
        source: &EnvVarSource,
        pod: &Pod,
        container: &v1::Container,
        ips: &[IpAddr],
        host: &Host,
    ) -> Result<String, FieldError> {
        if let Some(selector) = &source.field_ref {
            field(&selector.field_path, pod, ips, host)
        } else if let Some(selector) = &source.resource_field_ref {
            resource_value(selector, Some(&container.name), pod, host.node)
        } else {
            Err(FieldError::NeedsCluster)
        }
    }

    fn set(&mut self, name: &str, value: String) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Adds variables before all others; existing ones of the same name take precedence.
    pub(super) fn add_before(&mut self, more: &BTreeMap<String, String>) {
        let new = more.iter().filter(|(name, _)| self.get(name).is_none());
        let new: Vec<_> = new.map(|(name, value)| (name.clone(), value.clone())).collect();
        self.0.splice(0..0, new);
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// A text with its references put in.
    pub(super) fn expand(&self, text: &str) -> String {
        expand(text, |name| self.get(name).map(str::to_owned))
    }

    pub(super) fn expand_all(&self, texts: Option<&Vec<String>>) -> Vec<String> {
        texts.into_iter().flatten().map(|text| self.expand(text)).collect()
    }

    pub(super) fn into_pairs(self) -> Vec<(String, String)> {
        self.0
    }
}

#[cfg(test)]
mod tests;
