//! A container's environment (kubelet `makeEnvironmentVariables`), and the texts that refer to it.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{self, EnvVarSource};

use super::field::field;
use super::{Host, SpecError};
use crate::fields::FieldError;
use crate::fields::resource_value;
use nodewarden_manifest::{Expander, MAX_EXPANDED, Pod, TooLong};

/// Variables in the manifest's order; of two with one name the later value counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Environment {
    all: Vec<(String, String)>,
    /// The place of each name in `all`.
    places: HashMap<String, usize>,
    /// Bounds the variables and everything that is expanded with them.
    expander: Expander,
}

impl Environment {
    pub(super) fn of(
        pod: &Pod,
        container: &v1::Container,
        ips: &[IpAddr],
        host: &Host,
    ) -> Result<Self, SpecError> {
        let expander = Expander::new(MAX_EXPANDED);
        let mut all = Self { all: Vec::new(), places: HashMap::new(), expander };
        let too_long = |name: &str| {
            let name = name.to_owned();
            move |source: TooLong| SpecError::EnvTooLong { name, source }
        };
        for variable in container.env.iter().flatten() {
            let text = variable.value.as_deref().unwrap_or_default();
            all.expander.count(&variable.name).map_err(too_long(&variable.name))?;
            let value = match &variable.value_from {
                Some(source) if text.is_empty() => {
                    let value = all
                        .sourced(source, pod, container, ips, host)
                        .map_err(|source| SpecError::Env { name: variable.name.clone(), source })?;
                    all.expander.count(&value).map_err(too_long(&variable.name))?;
                    value
                }
                // Only variables defined earlier are known.
                _ => all.expand(text).map_err(too_long(&variable.name))?,
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
        match self.places.get(name) {
            Some(place) => self.all[*place].1 = value,
            None => {
                self.places.insert(name.to_owned(), self.all.len());
                self.all.push((name.to_owned(), value));
            }
        }
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
        let Self { all, places, expander } = self;
        expander.expand(text, |name| places.get(name).map(|place| all[*place].1.as_str()))
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

#[cfg(test)]
mod tests;
