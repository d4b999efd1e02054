//! Credentials for an image among several configurations (kubelet credentialprovider `BasicDockerKeyring`).

use std::collections::BTreeMap;

use super::docker_config::{self, DockerConfig};
use super::{Credential, url};
use crate::objects::Secret;

/// The registry of images without a domain.
const DEFAULT: &str = "index.docker.io";

/// Credentials by registry.
#[derive(Debug, Default)]
pub struct Keyring {
    /// By host and path.
    credentials: BTreeMap<String, Vec<Credential>>,
}

impl Keyring {
    /// Of secrets, in their order. Also returns what is wrong with some of them.
    pub fn of_secrets<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> (Self, Vec<&'static str>) {
        let (mut keyring, mut problems) = (Self::default(), Vec::new());
        for secret in secrets {
            match docker_config::of_secret(secret) {
                Ok(Some(config)) => keyring.add(config),
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
        (keyring, problems)
    }

    /// Adds a configuration behind those that are there.
    pub fn add(&mut self, config: DockerConfig) {
        for (address, credential) in config {
            let bare = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
            let (host, path) = url::split(bare.unwrap_or(&address));
            // The version of the registry's API is no part of an image's name.
            let path = ["/v1/", "/v2/"]
                .iter()
                .find(|version| path.starts_with(**version))
                .map_or(path, |_| &path[3..]);
            let key = if path == "/" { host.to_owned() } else { format!("{host}{path}") };
            let known = self.credentials.entry(key).or_default();
            if !known.contains(&credential) {
                known.push(credential);
            }
        }
    }

    /// The credentials for an image, given by its name with domain and without tag; those of the longest path
    /// first.
    pub fn find(&self, repository: &str) -> Vec<Credential> {
        let fitting = self.credentials.iter().rev().filter(|(address, _)| url::matches(address, repository));
        let found: Vec<_> = fitting.flat_map(|(_, credentials)| credentials.iter().cloned()).collect();
        let (host, _) = url::split(repository);
        if found.is_empty() && matches!(host, "docker.io" | DEFAULT) {
            return self.credentials.get(DEFAULT).cloned().unwrap_or_default();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyring(addresses: &[&str]) -> Keyring {
        let mut keyring = Keyring::default();
        for address in addresses {
            let credential = Credential { username: (*address).to_owned(), password: String::new() };
            keyring.add([((*address).to_owned(), credential)].into());
        }
        keyring
    }

    #[test]
    fn the_most_specific_credentials_come_first() {
        let all = keyring(&[
            "r.test",
            "https://r.test/team",
            "r.test/team/x",
            "*.test",
            "other.test",
            "r.test:5000",
        ]);
        let users = |image: &str| all.find(image).into_iter().map(|found| found.username).collect::<Vec<_>>();
        assert_eq!(users("r.test/team/x/img"), ["r.test/team/x", "https://r.test/team", "r.test", "*.test"]);
        assert_eq!(users("r.test/img"), ["r.test", "*.test"]);
        assert_eq!(users("r.test:5000/img"), ["r.test:5000"]);
        assert_eq!(users("docker.io/library/busybox"), [""; 0]);
    }

    #[test]
    fn the_default_registry_has_several_names() {
        for address in ["https://index.docker.io/v1/", "index.docker.io", "https://index.docker.io/v2/"] {
            assert_eq!(keyring(&[address]).find("docker.io/library/busybox").len(), 1, "{address}");
        }
        assert_eq!(keyring(&["docker.io"]).find("docker.io/library/busybox").len(), 1);
        assert_eq!(keyring(&["https://r.test/v1/"]).find("r.test/x").len(), 1);
    }
}
