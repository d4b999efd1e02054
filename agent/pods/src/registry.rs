//! Credentials for pulling images: from the pod's secrets ([`Keyring`]) and from the plugins of the node's
//! operator ([`Providers`]).

mod docker_config;
mod keyring;
mod providers;
mod url;

pub use docker_config::DockerConfig;
pub use keyring::Keyring;
pub use providers::{Providers, ProvidersError};

use std::fmt;

/// A user of a registry. Shown without the password.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Credential {
    /// Name of the user.
    pub username: String,
    /// Password or token.
    pub password: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential").field("username", &self.username).finish_non_exhaustive()
    }
}
