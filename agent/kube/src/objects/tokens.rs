//! Tokens of service accounts: asked for once, renewed at 80 % of their life (kubelet pkg/kubelet/token).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::authentication::v1 as authentication;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tracing::warn;

use super::follow::random;
use super::{READ_LIMIT, words};
use crate::Connection;
use crate::by_value::{Api, ByValue};
use nodewarden_pods::objects::{ObjectError, TokenRequest};
use nodewarden_tasks::parts;

/// No token is used for longer.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// Tokens that were made at once are renewed within this time.
const MOST_JITTER_MS: u64 = 10_000;
/// A token that is due and was not renewed is reported again after this time.
const REPORT_AGAIN: Duration = Duration::from_secs(20);
/// How long the task may work without giving its thread back.
const TASK_LIMIT: Duration = Duration::from_secs(60);

/// The tokens of this node's pods.
#[derive(Debug)]
pub(super) struct Tokens {
    connection: Connection,
    kept: Arc<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    tokens: Mutex<HashMap<TokenRequest, Token>>,
    /// A token was added.
    added: Notify,
}

#[derive(Clone)]
struct Token {
    text: Arc<str>,
    due: Instant,
    end: Instant,
    /// When it is reported next as due.
    report: Instant,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("due", &self.due).field("end", &self.end).finish_non_exhaustive()
    }
}

/// After how long a token of this life is renewed.
fn due_after(life: Duration, jitter: Duration) -> Duration {
    (life * 4 / 5).min(LONGEST).saturating_sub(jitter)
}

impl Tokens {
    /// Reports the uids of pods that have a token which is due.
    pub(super) fn start(connection: Connection, changes: mpsc::UnboundedSender<String>) -> Self {
        let kept = Arc::new(Kept::default());
        let part = parts::register("service account tokens", TASK_LIMIT);
        tokio::spawn(part.task(report_due(Arc::downgrade(&kept), changes)));
        Self { connection, kept }
    }

    /// The token for this request.
    pub(super) async fn get(&self, request: &TokenRequest) -> Result<Arc<str>, ObjectError> {
        let known = self.kept.tokens.lock().get(request).cloned();
        let now = Instant::now();
        if let Some(token) = known.as_ref().filter(|token| now < token.due) {
            return Ok(token.text.clone());
        }
        match self.request(request).await {
            Ok(token) => {
                let text = token.text.clone();
                self.kept.tokens.lock().insert(request.clone(), token);
                self.kept.added.notify_one();
                Ok(text)
            }
            Err(reason) => match known.filter(|token| Instant::now() < token.end) {
                Some(token) => {
                    let pod = format_args!("{}/{}", request.namespace, request.pod).to_string();
                    warn!(pod, "its token could not be renewed, and is valid still: {reason}");
                    Ok(token.text)
                }
                None => Err(ObjectError::Token { reason }),
            },
        }
    }

    async fn request(&self, request: &TokenRequest) -> Result<Token, String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.connection.client(), &request.namespace);
        let asked = ByValue(authentication::TokenRequest {
            spec: authentication::TokenRequestSpec {
                audiences: Some(&request.audience)
                    .filter(|audience| !audience.is_empty())
                    .cloned()
                    .into_iter()
                    .collect(),
                bound_object_ref: Some(authentication::BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(request.pod.clone()),
                    uid: Some(request.uid.clone()),
                }),
                expiration_seconds: Some(request.expiration_seconds),
            },
            ..Default::default()
        });
        let post = PostParams::default();
        let making = accounts.create_subresource("token", &request.account, &post, &asked);
        let made = tokio::time::timeout(READ_LIMIT, making).await;
        let made = made.map_err(|_| format!("no answer within {} s", READ_LIMIT.as_secs()))?;
        let made: ByValue<authentication::TokenRequest> = made.map_err(|error| words(&error))?;
        let made = made.0;
        let status = made.status.ok_or("the API server sent no token")?;
        // By the life that the API server gave it, from now on: its clock may differ.
        let asked = u64::try_from(made.spec.expiration_seconds.unwrap_or(request.expiration_seconds));
        let life = Duration::from_secs(asked.unwrap_or_default());
        let left = status.expiration_timestamp.0.duration_since(Timestamp::now());
        tracing::debug!(pod = request.pod, ?life, ?left, "a token was made");
        let now = Instant::now();
        let due = now + due_after(life, Duration::from_millis(random(MOST_JITTER_MS)));
        Ok(Token { text: status.token.into(), due, end: now + life, report: due })
    }

    /// The pod is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.kept.tokens.lock().retain(|request, _| request.uid != uid);
    }
}

impl Kept {
    /// Reports the tokens that are due. Returns when the next one is.
    fn report(&self, now: Instant, changes: &mpsc::UnboundedSender<String>) -> Instant {
        let mut next = now + LONGEST;
        let mut tokens = self.tokens.lock();
        // One that has ended is of no use: its pod has ended, or the API server is away.
        tokens.retain(|_, token| now < token.end);
        for (request, token) in tokens.iter_mut() {
            if token.report <= now {
                token.report = now + REPORT_AGAIN;
                // The receiver is gone when the agent ends.
                let _ = changes.send(request.uid.clone());
            }
            next = next.min(token.report);
        }
        next
    }
}

/// Reports each token when it is due, and again until it is renewed.
async fn report_due(kept: std::sync::Weak<Kept>, changes: mpsc::UnboundedSender<String>) {
    while let Some(kept) = kept.upgrade() {
        let next = kept.report(Instant::now(), &changes);
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            () = kept.added.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_renewed_at_four_fifths_of_its_life_and_after_a_day_at_most() {
        let seconds = |life: u64, jitter: u64| {
            due_after(Duration::from_secs(life), Duration::from_secs(jitter)).as_secs()
        };
        assert_eq!(seconds(600, 0), 480);
        assert_eq!(seconds(3607, 7), 2878);
        assert_eq!(seconds(365 * 24 * 3600, 0), 24 * 3600);
        assert_eq!(seconds(0, 5), 0);
    }
}
