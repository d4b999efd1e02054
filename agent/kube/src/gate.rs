//! Holds requests back until it is certain that the node's name is this agent's ([`crate::lease`]): another
//! agent of the same name may be alive, and nothing of it may be touched.
//!
//! What decides about the name passes: the node object, its lease, requests for certificates. Everything else
//! waits for [`PATIENCE`] and fails then, as if the API server did not answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use kube::client::Body;
use tokio::sync::watch;
use tower::{BoxError, Layer, Service};

/// How long a request waits for the name.
const PATIENCE: Duration = Duration::from_secs(10);

/// Paths of requests without which there are no credentials to ask with.
const REQUESTS: &str = "/apis/certificates.k8s.io/";
/// Paths of those, and of requests that decide about the name.
const OPEN: [&str; 3] =
    ["/api/v1/nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/", REQUESTS];

/// Why a request was not sent.
#[derive(Debug, thiserror::Error)]
#[error("it is not certain yet that no other agent has this node's name")]
pub struct NotClaimed;

/// Opens when the name is this agent's.
#[derive(Debug, Clone)]
pub struct Gate {
    claimed: watch::Receiver<bool>,
    bootstrap: bool,
}

impl Gate {
    /// Closed as long as the value is false.
    pub fn new(claimed: watch::Receiver<bool>) -> Self {
        Self { claimed, bootstrap: false }
    }

    /// The same for credentials of a bootstrap kubeconfig: only requests for certificates ever pass. Others
    /// fail when the name is this agent's, and are made again with the node's own credentials.
    pub fn of_bootstrap(&self) -> Self {
        Self { bootstrap: true, ..self.clone() }
    }

    fn lets_through(&self, path: &str) -> bool {
        match self.bootstrap {
            true => path.starts_with(REQUESTS),
            false => *self.claimed.borrow() || OPEN.iter().any(|open| path.starts_with(open)),
        }
    }
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { inner, gate: self.clone() }
    }
}

/// A service behind the gate.
#[derive(Debug)]
pub struct Gated<S> {
    inner: S,
    gate: Gate,
}

impl<S> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let open = self.gate.lets_through(request.uri().path());
        let answer = self.inner.call(request);
        if open {
            return Box::pin(answer);
        }
        let Gate { mut claimed, bootstrap } = self.gate.clone();
        Box::pin(async move {
            match tokio::time::timeout(PATIENCE, claimed.wait_for(|claimed| *claimed)).await {
                Ok(Ok(_)) if !bootstrap => {}
                _ => return Err(NotClaimed.into()),
            }
            answer.await
        })
    }
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_the_name() {
        let (claim, claimed) = watch::channel(false);
        let answers = tower::service_fn(|request: Request<Body>| async move {
            Ok::<_, BoxError>(request.uri().path().to_owned())
        });
        let gate = Gate::new(claimed);
        let ask = |path: &str| {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            gate.layer(answers).oneshot(request)
        };
        for open in ["/api/v1/nodes/n", "/api/v1/nodes?watch=1", "/apis/certificates.k8s.io/v1/x"] {
            assert!(ask(open).await.is_ok(), "{open}");
        }
        let refused = ask("/api/v1/pods").await.unwrap_err();
        assert_eq!(refused.to_string(), NotClaimed.to_string());
        let waits = tokio::spawn(ask("/api/v1/pods"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        claim.send_replace(true);
        assert_eq!(waits.await.unwrap().unwrap(), "/api/v1/pods");
        assert!(ask("/api/v1/pods").await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_bootstrap_token_is_only_for_certificates() {
        let (claim, claimed) = watch::channel(false);
        let answers =
            tower::service_fn(|_: Request<Body>| async move { Ok::<_, BoxError>("answered".to_owned()) });
        let gate = Gate::new(claimed).of_bootstrap();
        let ask = |path: &str| {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            gate.layer(answers).oneshot(request)
        };
        assert!(ask("/apis/certificates.k8s.io/v1/x").await.is_ok());
        let waits = tokio::spawn(ask("/api/v1/pods"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        claim.send_replace(true);
        assert!(waits.await.unwrap().is_err());
        assert!(ask("/api/v1/nodes/n").await.is_err());
    }
}
