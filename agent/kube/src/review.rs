//! Who a bearer token belongs to and what a user may do, as the API server says: TokenReview and
//! SubjectAccessReview.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1 as access;
use kube::api::PostParams;

use crate::Connection;
use crate::by_value::{Api, ByValue};

/// How long a review may take, all attempts together.
const LIMIT: Duration = Duration::from_secs(10);
/// The pause before each further attempt (`DefaultAuthWebhookRetryBackoff`: 0.5 s, times 1.5).
const PAUSES: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_millis(750), Duration::from_millis(1125)];

/// A user as authentication found it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct User {
    /// `system:node:NAME`, `system:serviceaccount:NAMESPACE:NAME`, or any other name.
    pub name: String,
    /// The unique id, if there is one.
    pub uid: String,
    /// `system:authenticated` and others.
    pub groups: Vec<String>,
    /// More about the user that authorizers may look at, sorted by key.
    pub extra: Vec<(String, Vec<String>)>,
}

/// What a user wants to do: a verb on a subresource of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Access {
    /// `get`, `create`, …; empty for other methods.
    pub verb: &'static str,
    /// `proxy`, `stats`, `metrics`, `log`, `pods`, …
    pub subresource: &'static str,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// The request failed.
    #[error("{review} failed: {source}")]
    Request {
        /// `TokenReview` or `SubjectAccessReview`.
        review: &'static str,
        /// What failed.
        source: Box<kube::Error>,
    },
    /// The API server did not answer in time.
    #[error("{review} was not answered within {LIMIT:?}")]
    Late {
        /// `TokenReview` or `SubjectAccessReview`.
        review: &'static str,
    },
    /// The API server answered that it could not decide.
    #[error("{review}: the API server says: {message}")]
    Undecided {
        /// `TokenReview` or `SubjectAccessReview`.
        review: &'static str,
        /// Its message.
        message: String,
    },
}

const TOKEN: &str = "TokenReview";
const ACCESS: &str = "SubjectAccessReview";

/// Asks the API server. Each request is tried again where that may help, for 10 s at most.
#[derive(Debug, Clone)]
pub struct Reviewer {
    connection: Connection,
}

impl Reviewer {
    /// Asks over this connection, about its node.
    pub fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// The user of a bearer token; `None` if the API server refuses the token.
    ///
    /// # Errors
    /// The API server cannot be asked, or cannot decide.
    pub async fn token(&self, token: &str) -> Result<Option<User>, ReviewError> {
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
        let answer = self.create(TOKEN, &TokenReview { spec, ..TokenReview::default() }).await?;
        let status = answer.status.unwrap_or_default();
        match (status.authenticated, status.user, status.error) {
            (Some(true), Some(user), _) => Ok(Some(user_of(user))),
            // As in the kubelet, what is said about a bad token does not matter.
            (_, _, error) => {
                tracing::debug!(error, "a bearer token is not accepted");
                Ok(None)
            }
        }
    }

    /// Whether a user may do this with this agent's node.
    ///
    /// # Errors
    /// The API server cannot be asked, or cannot decide.
    pub async fn access(&self, user: &User, access: &Access) -> Result<bool, ReviewError> {
        let review = access_review(user, access, self.connection.node());
        let status = self.create(ACCESS, &review).await?.status.unwrap_or_default();
        match status.evaluation_error.filter(|_| !status.allowed) {
            Some(message) if status.denied != Some(true) => {
                Err(ReviewError::Undecided { review: ACCESS, message })
            }
            _ => Ok(status.allowed),
        }
    }

    async fn create<K>(&self, review: &'static str, object: &K) -> Result<K, ReviewError>
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let object = ByValue(object.clone());
        let attempts = async {
            let mut pauses = PAUSES.iter();
            loop {
                let api = Api::<K>::all(self.connection.client());
                match api.create(&PostParams::default(), &object).await {
                    Err(error) if is_passing(&error) => match pauses.next() {
                        Some(pause) => tokio::time::sleep(*pause).await,
                        None => return Err(error),
                    },
                    answered => return answered,
                }
            }
        };
        match tokio::time::timeout(LIMIT, attempts).await {
            Ok(answered) => answered
                .map(|made| made.0)
                .map_err(|source| ReviewError::Request { review, source: Box::new(source) }),
            Err(_) => Err(ReviewError::Late { review }),
        }
    }
}

/// Whether another attempt may help.
fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}

fn user_of(user: UserInfo) -> User {
    User {
        name: user.username.unwrap_or_default(),
        uid: user.uid.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        extra: user.extra.unwrap_or_default().into_iter().collect(),
    }
}

/// The review of an access to the node of this name.
fn access_review(user: &User, access: &Access, node: &str) -> access::SubjectAccessReview {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let spec = access::SubjectAccessReviewSpec {
        user: some(&user.name),
        uid: some(&user.uid),
        groups: (!user.groups.is_empty()).then(|| user.groups.clone()),
        extra: (!user.extra.is_empty()).then(|| user.extra.iter().cloned().collect()),
        resource_attributes: Some(access::ResourceAttributes {
            verb: some(access.verb),
            version: some("v1"),
            resource: some("nodes"),
            subresource: some(access.subresource),
            name: some(node),
            ..access::ResourceAttributes::default()
        }),
        non_resource_attributes: None,
    };
    access::SubjectAccessReview { spec, ..access::SubjectAccessReview::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_access_is_asked_for_as_a_kubelet_does() {
        let user = User {
            name: "system:serviceaccount:monitoring:prometheus".into(),
            uid: "u1".into(),
            groups: vec!["system:authenticated".into()],
            extra: vec![("example.com/scope".into(), vec!["a".into(), "b".into()])],
        };
        let review = access_review(&user, &Access { verb: "get", subresource: "metrics" }, "node-1");
        assert_eq!(
            serde_json::to_value(review).unwrap(),
            json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
                "spec": {
                    "user": "system:serviceaccount:monitoring:prometheus", "uid": "u1",
                    "groups": ["system:authenticated"], "extra": {"example.com/scope": ["a", "b"]},
                    "resourceAttributes": {
                        "verb": "get", "version": "v1", "resource": "nodes", "subresource": "metrics", "name": "node-1",
                    },
                },
            })
        );
        let anonymous = access_review(&User::default(), &Access { verb: "", subresource: "proxy" }, "node-1");
        let attributes =
            json!({"version": "v1", "resource": "nodes", "subresource": "proxy", "name": "node-1"});
        assert_eq!(
            serde_json::to_value(anonymous).unwrap()["spec"],
            json!({ "resourceAttributes": attributes })
        );
    }

    #[test]
    fn a_user_of_a_token() {
        let info: UserInfo =
            serde_json::from_value(json!({"username": "a", "groups": ["g"], "extra": {"k": ["v"]}})).unwrap();
        let user = user_of(info);
        assert_eq!((user.name.as_str(), user.uid.as_str(), user.groups), ("a", "", vec!["g".to_owned()]));
        assert_eq!(user.extra, [("k".to_owned(), vec!["v".to_owned()])]);
    }
}
