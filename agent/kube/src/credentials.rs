//! The credentials of this node: read at the start, read again when a file changes, requested and renewed.
//!
//! As a kubelet (cmd/kubelet/app/server.go, pkg/kubelet/certificate): without a kubeconfig that is valid, the
//! bootstrap kubeconfig is used to request a client certificate, which is kept in `--cert-dir` and named by a
//! new kubeconfig. With `rotateCertificates` the certificate is renewed after 70 to 90 % of its life. The API
//! server need not be reachable for any of it: the agent goes on with what it has and tries again.

pub mod certificate;
pub mod request;
pub mod source;
pub mod store;

use std::time::Duration;

use jiff::Timestamp;
use nodewarden_config::KubernetesSettings;
use nodewarden_model::backoff::Backoff;
use nodewarden_tasks::blocking;
use nodewarden_tasks::parts::{self, Pulse};
use rcgen::KeyPair;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::gate::Gate;
use crate::{Connection, KubeError};
use certificate::Validity;
use request::{Purpose, RequestError};
use source::Source;
use store::Store;

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// The waits after failed requests.
pub(crate) const AGAIN: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(60));
/// How long a round may take without progress: a request is looked at every 5 s.
const LIMIT: Duration = Duration::from_secs(120);

/// Renews the credentials of a [`Connection`].
pub struct Credentials {
    source: Source,
    clients: watch::Sender<kube::Client>,
    identified: watch::Sender<bool>,
    connection: Connection,
    state: State,
}

/// The renewal that runs; it ends when this is dropped.
#[derive(Debug)]
pub struct Renewal(JoinHandle<()>);

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is known of the credentials in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// Changes when any of the files does.
    pub digest: [u8; 32],
    /// They are those of the bootstrap kubeconfig.
    pub bootstrap: bool,
    /// When the client certificate is valid; `None` without one.
    pub validity: Option<Validity>,
}

/// The connection of the node of this name. `repeats`: its client repeats requests by itself after a refusal
/// for want of time (429), when the API server asks it to. Requests that are not about the name itself wait
/// until it is claimed ([`crate::gate`]).
///
/// # Errors
/// The credentials cannot be read, or are none.
pub async fn connect(
    settings: &KubernetesSettings,
    node: &str,
    repeats: bool,
) -> Result<(Connection, Credentials), KubeError> {
    let claimed = watch::Sender::new(false);
    let source = Source::new(settings, Gate::new(claimed.subscribe()), repeats);
    let (client, state) = read(&source, None).await?.ok_or(KubeError::Panicked)?;
    let (clients, followed) = watch::channel(client);
    let identified = watch::Sender::new(!state.bootstrap);
    let connection = Connection::with_claim(followed, node, claimed, identified.subscribe());
    Ok((connection.clone(), Credentials { source, clients, identified, connection, state }))
}

/// Reads the files on a thread for blocking work; `None` if they are those of `known`.
async fn read(source: &Source, known: Option<[u8; 32]>) -> Result<Option<(kube::Client, State)>, KubeError> {
    let source = source.clone();
    blocking::STATE_FILES.run(move || source.read(known)).await.unwrap_or(Err(KubeError::Panicked))
}

impl Credentials {
    /// Starts to follow the files and to renew. Must be called inside a tokio runtime.
    pub fn start(self) -> Renewal {
        Renewal(tokio::spawn(parts::register("credentials", LIMIT).task_with(|pulse| self.run(pulse))))
    }

    async fn run(mut self, pulse: Pulse) {
        let (mut failures, mut reported) = (0, None);
        // The files are looked at also while a request has to wait.
        let mut next = Instant::now();
        loop {
            pulse.progress();
            match read(&self.source, Some(self.state.digest)).await {
                Ok(None) => {}
                Ok(Some((client, state))) => {
                    info!("the credentials for the API server have changed");
                    self.state = state;
                    self.clients.send_replace(client);
                    self.identified.send_replace(!state.bootstrap);
                }
                Err(error) => warn!("the credentials for the API server stay as they were: {error}"),
            }
            if reported != Some(self.state.digest)
                && let Some(text) = self.source.ended(&self.state, Timestamp::now())
            {
                warn!("{text}");
                reported = Some(self.state.digest);
            }
            if !self.source.wants_certificate(&self.state, Timestamp::now()) {
                failures = 0;
                tokio::time::sleep(LOOK).await;
                continue;
            }
            let pause = next.saturating_duration_since(Instant::now());
            if !pause.is_zero() {
                tokio::time::sleep(pause.min(LOOK)).await;
                continue;
            }
            match self.request(&pulse).await {
                // Read again at once. What the signer gives may be near its end already.
                Ok(Requested::Certificate) => (failures, next) = (0, Instant::now() + LOOK),
                Ok(Requested::Overtaken) => {}
                Err(error) => {
                    warn!("no client certificate yet: {error}");
                    next = Instant::now() + AGAIN.nth(failures);
                    failures += 1;
                }
            }
        }
    }

    /// Requests a client certificate and writes it down. An approver may take its time: a file that changes
    /// meanwhile ends the wait, since it may be what makes the request unnecessary.
    async fn request(&self, pulse: &Pulse) -> Result<Requested, IssueError> {
        let store = self.source.store().clone();
        let issued = tokio::select! {
            issued = issue(&self.connection, &store, &Purpose::Client, || pulse.progress()) => issued,
            () = self.files_change() => return Ok(Requested::Overtaken),
        };
        let (certificates, key) = issued?;
        let (source, bootstrap) = (self.source.clone(), self.state.bootstrap);
        let write = move || {
            source.store().add(&certificates, &key, Timestamp::now())?;
            source.store().forget_pending();
            if bootstrap { source.write_kubeconfig() } else { Ok(()) }
        };
        blocking::STATE_FILES.run(write).await.map_err(|_| IssueError::Panicked)??;
        info!("there is a new client certificate in {}", self.source.store().current().display());
        Ok(Requested::Certificate)
    }

    /// Waits until the files have other credentials than those in use.
    async fn files_change(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            // What cannot be read is reported when there is no request.
            if let Ok(Some(_)) = read(&self.source, Some(self.state.digest)).await {
                return;
            }
        }
    }
}

/// How a request for a client certificate has ended.
enum Requested {
    /// The certificate is on disk.
    Certificate,
    /// The files have changed before there was one.
    Overtaken,
}

/// Why no certificate was issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The request failed.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The key cannot be made.
    #[error("making a key: {0}")]
    Key(#[from] rcgen::Error),
    /// Key or certificate cannot be kept.
    #[error("--cert-dir: {0}")]
    Write(#[from] std::io::Error),
    /// Work on a thread panicked.
    #[error("internal error, see the log")]
    Panicked,
}

/// Requests a certificate with the key of an earlier request, or with a new one, which is kept until there is
/// an answer.
///
/// # Errors
/// There is no certificate.
pub async fn issue(
    connection: &Connection,
    store: &Store,
    purpose: &Purpose,
    alive: impl Fn(),
) -> Result<(String, String), IssueError> {
    let kept = store.clone();
    let pending = blocking::STATE_FILES.run(move || kept.pending_key()).await.ok().flatten();
    let key = match pending.and_then(|text| KeyPair::from_pem(&text).ok()) {
        Some(key) => key,
        None => {
            let key = KeyPair::generate()?;
            let (kept, text) = (store.clone(), key.serialize_pem());
            let write = move || kept.keep_pending(&text);
            blocking::STATE_FILES.run(write).await.map_err(|_| IssueError::Panicked)??;
            key
        }
    };
    let request = request::request(connection.node(), purpose, &key)?;
    match request::certificate(connection, &request, alive).await {
        Ok(text) => Ok((text, key.serialize_pem())),
        Err(error) => {
            if error.is_final() || matches!(error, RequestError::Unanswered { .. }) {
                let kept = store.clone();
                let _ = blocking::STATE_FILES.run(move || kept.forget_pending()).await;
            }
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests;
