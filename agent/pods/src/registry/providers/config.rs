//! `CredentialProviderConfig` (kubelet.config.k8s.io): which plugins are asked for which images.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

/// Why the plugins cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProvidersError {
    /// The configuration cannot be read.
    #[error("credential providers {path}: {source}", path = .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The configuration is not valid.
    #[error("credential providers {path}: {reason}", path = .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A plugin's program does not exist.
    #[error("credential provider {}: no such program", program.display())]
    NoProgram {
        /// Where it should be.
        program: PathBuf,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    providers: Vec<Given>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    name: String,
    #[serde(default)]
    match_images: Vec<String>,
    #[serde(default)]
    default_cache_duration: Option<String>,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
    #[serde(default)]
    token_attributes: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
}

/// One plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Provider {
    /// Name of its program.
    pub(super) name: String,
    /// Addresses of the images that it is asked for.
    pub(super) match_images: Vec<String>,
    pub(super) default_cache_duration: Duration,
    /// Of request and response.
    pub(super) api_version: String,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
}

pub(super) fn read(path: &Path) -> Result<Vec<Provider>, ProvidersError> {
    let text =
        fs::read_to_string(path).map_err(|source| ProvidersError::Read { path: path.to_owned(), source })?;
    parse(&text).map_err(|reason| ProvidersError::Invalid { path: path.to_owned(), reason })
}

fn parse(text: &str) -> Result<Vec<Provider>, String> {
    let file: File = serde_yaml_ng::from_str(text).map_err(|error| error.to_string())?;
    let version = file.api_version.strip_prefix("kubelet.config.k8s.io/").unwrap_or_default();
    if file.kind != "CredentialProviderConfig" || !matches!(version, "v1" | "v1beta1" | "v1alpha1") {
        return Err("must be a CredentialProviderConfig of kubelet.config.k8s.io/v1".to_owned());
    }
    if file.providers.is_empty() {
        return Err("providers is required".to_owned());
    }
    let mut all: Vec<Provider> = Vec::new();
    for given in file.providers {
        if all.iter().any(|known| known.name == given.name) {
            return Err(format!("provider {:?} is there twice", given.name));
        }
        all.push(provider(given)?);
    }
    Ok(all)
}

fn provider(given: Given) -> Result<Provider, String> {
    let name = given.name;
    let fail = |what: &str| Err(format!("provider {name:?}: {what}"));
    if name.is_empty() || name.contains('/') || name.contains(' ') || name == "." || name == ".." {
        return fail("its name must be that of a program in the directory");
    }
    if given.match_images.is_empty() {
        return fail("matchImages is required");
    }
    let version = given.api_version.strip_prefix("credentialprovider.kubelet.k8s.io/").unwrap_or_default();
    if !matches!(version, "v1" | "v1beta1" | "v1alpha1") {
        return fail("apiVersion must be credentialprovider.kubelet.k8s.io/v1");
    }
    if given.token_attributes.is_some() {
        return fail("tokenAttributes is not supported: this agent gives plugins no service account tokens");
    }
    let Some(cache) = given.default_cache_duration.as_deref().and_then(duration) else {
        return fail("defaultCacheDuration must be a time like 5m0s");
    };
    Ok(Provider {
        match_images: given.match_images,
        default_cache_duration: cache,
        api_version: given.api_version,
        args: given.args.unwrap_or_default(),
        env: given
            .env
            .unwrap_or_default()
            .into_iter()
            .map(|variable| (variable.name, variable.value))
            .collect(),
        name,
    })
}

/// A time as Go writes it, such as `1h5m0s`; not below 0.
pub(super) fn duration(text: &str) -> Option<Duration> {
    nodewarden_config::parse_duration(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: ecr
  matchImages: ['*.registry.test']
  defaultCacheDuration: 12h0m0s
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get]
  env: [{name: A, value: b}]
";

    #[test]
    fn a_configuration_is_read_or_refused_with_the_reason() {
        let all = parse(GOOD).unwrap();
        assert_eq!((all[0].name.as_str(), all[0].default_cache_duration.as_secs()), ("ecr", 12 * 3600));
        assert_eq!(all[0].env, [("A".to_owned(), "b".to_owned())]);
        for (from, to, why) in [
            ("kind: Cred", "kind: X", "must be a CredentialProviderConfig"),
            ("k8s.io/v1\nkind", "k8s.io/v9\nkind", "must be a CredentialProviderConfig"),
            ("name: ecr", "name: ../ecr", "must be that of a program"),
            ("['*.registry.test']", "[]", "matchImages is required"),
            ("12h0m0s", "soon", "defaultCacheDuration"),
            ("credentialprovider.kubelet.k8s.io/v1", "v1", "apiVersion must be"),
            ("args: [get]", "tokenAttributes: {}", "tokenAttributes"),
        ] {
            let error = parse(&GOOD.replace(from, to)).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
