//! A stand-in for an API server that answers with what a test wrote down, in order: a real one sends no
//! garbage and does not skip or repeat on demand.

use std::collections::VecDeque;
use std::sync::Arc;

use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::Connection;

/// Answers that are still to be given, and the requests that were made.
#[derive(Clone, Default)]
pub(crate) struct Script {
    answers: Arc<Mutex<VecDeque<(u16, String)>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Script {
    /// Adds an answer: its HTTP status and its text.
    pub(crate) fn then(self, status: u16, text: impl Into<String>) -> Self {
        self.answers.lock().push_back((status, text.into()));
        self
    }

    /// Adds a list with these objects.
    pub(crate) fn list(self, items: &str) -> Self {
        self.then(200, format!(r#"{{"metadata": {{"resourceVersion": "10"}}, "items": [{items}]}}"#))
    }

    /// Method and path with query of each request so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }

    /// A connection to it. A request for which there is no answer is never answered.
    pub(crate) fn connection(&self) -> Connection {
        let script = self.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let script = script.clone();
            async move {
                script.requests.lock().push(format!("{} {}", request.method(), request.uri()));
                let answer = script.answers.lock().pop_front();
                let Some((status, text)) = answer else { return std::future::pending().await };
                let response = http::Response::builder().status(status).body(Body::from(text.into_bytes()));
                response.map_err(|error| Box::new(error) as tower::BoxError)
            }
        });
        let client = kube::Client::new(service, "default");
        // The sender is leaked so that the connection stays as it is.
        let (sender, clients) = watch::channel(client);
        std::mem::forget(sender);
        Connection::new(clients, "n1")
    }
}
