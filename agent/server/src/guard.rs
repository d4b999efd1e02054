//! Who a request is of, and whether it may do what it wants.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use nodewarden_config::{AuthenticationSettings, AuthorizationMode, AuthorizationSettings};
use nodewarden_kube::review::{Access, ReviewError, Reviewer, User};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::attributes;
use crate::cache::{Cache, Key};
use crate::identity;

/// Maximum number of answers of each kind that are kept.
const KEPT: usize = 1024;
/// Maximum number of reviews of each kind at a time; others wait, and find the answer if it was the same
/// question.
const REVIEWS: usize = 8;
/// The longest bearer token that is reviewed, in bytes.
const LONGEST_TOKEN: usize = 16 << 10;

/// Knows the users of bearer tokens.
#[async_trait]
pub trait Tokens: Send + Sync {
    /// The user of a token; `None` if the API server refuses it.
    async fn user(&self, token: &str) -> Result<Option<User>, ReviewError>;
}

/// Knows what users may do.
#[async_trait]
pub trait Permissions: Send + Sync {
    /// Whether the user may do this with the node.
    async fn allowed(&self, user: &User, access: &Access) -> Result<bool, ReviewError>;
}

#[async_trait]
impl Tokens for Reviewer {
    async fn user(&self, token: &str) -> Result<Option<User>, ReviewError> {
        self.token(token).await
    }
}

#[async_trait]
impl Permissions for Reviewer {
    async fn allowed(&self, user: &User, access: &Access) -> Result<bool, ReviewError> {
        self.access(user, access).await
    }
}

/// The credentials of a request.
#[derive(Debug, Clone, Default)]
pub struct Credentials<'a> {
    /// The user of a client certificate that was verified.
    pub certificate: Option<&'a User>,
    /// The bearer token.
    pub token: Option<&'a str>,
}

/// Why a request is not answered.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Its user is not known. The reason is for the log alone.
    #[error("Unauthorized")]
    Unauthorized {
        /// Why.
        reason: String,
    },
    /// The user may not do that.
    #[error("Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{}])", .subresources.join(" "))]
    Forbidden {
        /// Name of the user.
        user: String,
        /// What the request wants to do.
        verb: &'static str,
        /// With one of these.
        subresources: Vec<&'static str>,
    },
    /// Whether the user may do that is not known. The reason is for the log alone.
    #[error("Authorization error (user={user}, verb={verb}, resource=nodes, subresource={subresource})")]
    Unknown {
        /// Name of the user.
        user: String,
        /// What the request wants to do.
        verb: &'static str,
        /// With this.
        subresource: &'static str,
        /// Why.
        reason: String,
    },
}

/// Authenticates and authorizes requests.
pub struct Guard {
    tokens: Option<Arc<dyn Tokens>>,
    /// `None`: everything is allowed.
    permissions: Option<Arc<dyn Permissions>>,
    anonymous: bool,
    keep_users: Duration,
    keep_allowed: Duration,
    keep_denied: Duration,
    users: Cache<Option<User>>,
    answers: Cache<bool>,
    token_reviews: Semaphore,
    access_reviews: Semaphore,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Guard {
    /// By these settings. Without `permissions` the mode Webhook allows nothing.
    pub fn new(
        authentication: &AuthenticationSettings,
        authorization: &AuthorizationSettings,
        tokens: Option<Arc<dyn Tokens>>,
        permissions: Option<Arc<dyn Permissions>>,
    ) -> Self {
        Self {
            tokens: tokens.filter(|_| authentication.webhook),
            permissions: match authorization.mode {
                AuthorizationMode::AlwaysAllow => None,
                AuthorizationMode::Webhook => Some(permissions.unwrap_or_else(|| Arc::new(Nothing))),
            },
            anonymous: authentication.anonymous,
            keep_users: authentication.cache,
            keep_allowed: authorization.allowed,
            keep_denied: authorization.denied,
            users: Cache::new(KEPT),
            answers: Cache::new(KEPT),
            token_reviews: Semaphore::new(REVIEWS),
            access_reviews: Semaphore::new(REVIEWS),
        }
    }

    /// The user of a request, as in the kubelet: a certificate counts before a token, and a bad token is
    /// refused even where anonymous requests are allowed.
    ///
    /// # Errors
    /// [`Refusal::Unauthorized`].
    pub async fn authenticate(&self, credentials: &Credentials<'_>) -> Result<User, Refusal> {
        let unauthorized = |reason: &str| Refusal::Unauthorized { reason: reason.to_owned() };
        if let Some(user) = credentials.certificate {
            return Ok(user.clone());
        }
        match (credentials.token, &self.tokens) {
            (Some(token), Some(tokens)) => {
                if token.len() > LONGEST_TOKEN {
                    return Err(unauthorized("the bearer token is too long"));
                }
                match self.user_of(tokens.as_ref(), token).await {
                    Ok(Some(user)) => Ok(user),
                    Ok(None) => Err(unauthorized("the API server refuses the bearer token")),
                    Err(error) => {
                        tracing::warn!(%error, "whose bearer token this is cannot be found out");
                        Err(unauthorized("the bearer token cannot be reviewed"))
                    }
                }
            }
            (Some(_), None) => Err(unauthorized(
                "bearer tokens are not accepted: authentication.webhook is off, or there is no kubeconfig",
            )),
            (None, _) if self.anonymous => Ok(identity::anonymous()),
            (None, _) => Err(unauthorized("there are no credentials that are accepted")),
        }
    }

    async fn user_of(&self, tokens: &dyn Tokens, token: &str) -> Result<Option<User>, ReviewError> {
        let key: Key = Sha256::digest(token.as_bytes()).into();
        if let Some(known) = self.users.get(&key, Instant::now()) {
            return Ok(known);
        }
        let _place = self.token_reviews.acquire().await;
        if let Some(known) = self.users.get(&key, Instant::now()) {
            return Ok(known);
        }
        let user = tokens.user(token).await?.map(identity::authenticated);
        self.users.put(key, user.clone(), self.keep_users, Instant::now());
        Ok(user)
    }

    /// Whether a user may make this request.
    ///
    /// # Errors
    /// [`Refusal::Forbidden`], [`Refusal::Unknown`].
    pub async fn authorize(&self, user: &User, method: &str, path: &str) -> Result<(), Refusal> {
        let Some(permissions) = &self.permissions else { return Ok(()) };
        let accesses = attributes::accesses(method, path);
        for access in &accesses {
            match self.allowed(permissions.as_ref(), user, access).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    return Err(Refusal::Unknown {
                        user: user.name.clone(),
                        verb: access.verb,
                        subresource: access.subresource,
                        reason: error.to_string(),
                    });
                }
            }
        }
        Err(Refusal::Forbidden {
            user: user.name.clone(),
            verb: accesses.first().map_or("", |access| access.verb),
            subresources: accesses.iter().map(|access| access.subresource).collect(),
        })
    }

    async fn allowed(
        &self,
        permissions: &dyn Permissions,
        user: &User,
        access: &Access,
    ) -> Result<bool, ReviewError> {
        let key = key_of(user, access);
        if let Some(known) = self.answers.get(&key, Instant::now()) {
            return Ok(known);
        }
        let _place = self.access_reviews.acquire().await;
        if let Some(known) = self.answers.get(&key, Instant::now()) {
            return Ok(known);
        }
        let allowed = permissions.allowed(user, access).await?;
        let keep = if allowed { self.keep_allowed } else { self.keep_denied };
        self.answers.put(key, allowed, keep, Instant::now());
        Ok(allowed)
    }
}

/// A key that differs whenever user or access differ.
fn key_of(user: &User, access: &Access) -> Key {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    let mut list = |texts: &[String]| {
        add(&texts.len().to_string());
        texts.iter().for_each(|text| add(text));
    };
    list(&[user.name.clone(), user.uid.clone(), access.verb.to_owned(), access.subresource.to_owned()]);
    list(&user.groups);
    for (name, values) in &user.extra {
        list(std::slice::from_ref(name));
        list(values);
    }
    hash.finalize().into()
}

/// Without an API server nothing is allowed.
struct Nothing;

#[async_trait]
impl Permissions for Nothing {
    async fn allowed(&self, _: &User, _: &Access) -> Result<bool, ReviewError> {
        Ok(false)
    }
}

/// The token of an `Authorization` header; `None` if it is none of a bearer. (`bearertoken.New`, apiserver
/// pkg/authentication/request.)
pub fn bearer(header: &str) -> Option<&str> {
    let (kind, token) = header.trim().split_once(' ')?;
    // Tokens have no spaces; a kubelet takes what comes before one.
    let token = token.trim_start().split(' ').next().unwrap_or_default();
    (kind.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests;
