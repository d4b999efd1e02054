//! The serving certificate of the node's server: from given files, requested of the API server, or
//! self-signed.
//!
//! As in a kubelet: `tlsCertFile` and `tlsPrivateKeyFile` win; with `serverTLSBootstrap` the certificate is
//! requested with the node's addresses, renewed after 70 to 90 % of its life and when the addresses change;
//! otherwise it is self-signed and kept as `kubelet.crt` and `kubelet.key` in `--cert-dir`. Until a requested
//! certificate is issued there is a self-signed one.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use nodewarden_config::KubernetesSettings;
use nodewarden_tasks::blocking;
use nodewarden_tasks::parts::{self, Pulse};
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::Connection;
use crate::credentials::certificate::{self, Pair, Validity};
use crate::credentials::request::Purpose;
use crate::credentials::store::Store;
use crate::credentials::{AGAIN, issue};
use crate::node::addresses::ips;
use crate::node::run::NodeObject;
use nodewarden_storage::private_file;

/// How often files and the certificate's age are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How long a round may take without progress.
const LIMIT: Duration = Duration::from_secs(120);
/// The life of a self-signed certificate, and how long before its end another one is made.
const SELF_SIGNED: [Duration; 2] = [Duration::from_secs(365 * 86_400), Duration::from_secs(30 * 86_400)];

/// A certificate with its key, as TLS libraries take them.
#[derive(Debug)]
pub struct ServingCertificate {
    /// The certificate, followed by those of its authorities.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of the first.
    pub key: PrivateKeyDer<'static>,
}

/// What provides the certificate; it ends when this is dropped.
#[derive(Debug)]
pub struct Provider(JoinHandle<()>);

impl Drop for Provider {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// A given file cannot be read, or has no certificate or key that belongs there.
    #[error("tlsCertFile {certificate}, tlsPrivateKeyFile {key}: {cause}")]
    Files {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong.
        cause: String,
    },
    /// A self-signed one cannot be made.
    #[error("making a self-signed certificate: {0}")]
    SelfSigned(#[from] rcgen::Error),
    /// Work on a thread panicked.
    #[error("serving certificate: internal error, see the log")]
    Panicked,
}

/// Where the certificate is from.
#[derive(Debug, Clone)]
struct Source {
    node: String,
    files: Option<(PathBuf, PathBuf)>,
    request: bool,
    directory: PathBuf,
}

/// Starts to provide the certificate. `addresses` are those of the node; without any, or without a
/// connection, nothing is requested. Must be called inside a tokio runtime.
///
/// # Errors
/// The given files are no certificate and key, or none can be made.
pub async fn start(
    settings: &KubernetesSettings,
    node: &str,
    addresses: watch::Receiver<Vec<IpAddr>>,
    connection: Option<Connection>,
) -> Result<(watch::Receiver<Arc<ServingCertificate>>, Provider), ServingError> {
    let files = settings.tls_cert_file.clone().zip(settings.tls_private_key_file.clone());
    let source = Source {
        node: node.to_owned(),
        request: settings.server_tls_bootstrap && files.is_none() && connection.is_some(),
        files,
        directory: settings.cert_dir.clone(),
    };
    let pair = read(&source).await?;
    let (to, certificates) = watch::channel(Arc::new(pair.clone().into()));
    let work = Work { source, pair, to, addresses, connection };
    let task = tokio::spawn(parts::register("serving certificate", LIMIT).task_with(|pulse| work.run(pulse)));
    Ok((certificates, Provider(task)))
}

impl From<Pair> for ServingCertificate {
    fn from(pair: Pair) -> Self {
        Self { chain: pair.chain, key: pair.key }
    }
}

/// Gives the addresses of the node object to the sender whenever they change, for as long as there is a
/// receiver. A node that has none for a moment keeps those it had.
pub async fn follow_addresses(mut nodes: NodeObject, to: watch::Sender<Vec<IpAddr>>) {
    loop {
        if let Some(now) = nodes.get().map(|node| ips(&node)).filter(|now| !now.is_empty()) {
            to.send_if_modified(|known| {
                let differ = *known != now;
                *known = now;
                differ
            });
        }
        let changed = tokio::select! {
            changed = nodes.changed() => changed,
            () = to.closed() => false,
        };
        if !changed {
            return;
        }
    }
}

struct Work {
    source: Source,
    pair: Pair,
    to: watch::Sender<Arc<ServingCertificate>>,
    addresses: watch::Receiver<Vec<IpAddr>>,
    connection: Option<Connection>,
}

impl Work {
    async fn run(mut self, pulse: Pulse) {
        let mut failures = 0;
        let mut requested: Option<Vec<IpAddr>> = None;
        loop {
            pulse.progress();
            match read(&self.source).await {
                Ok(pair) if pair.chain != self.pair.chain => {
                    info!("there is a new serving certificate, valid until {}", pair.validity.until);
                    self.pair = pair.clone();
                    self.to.send_replace(Arc::new(pair.into()));
                }
                Ok(_) => {}
                Err(error) => warn!("the serving certificate stays as it was: {error}"),
            }
            let addresses = self.addresses.borrow_and_update().clone();
            let is_known = !addresses.is_empty();
            let moved = requested.as_ref().is_none_or(|before| *before != addresses);
            let wait = match &self.connection {
                Some(connection)
                    if self.source.request && is_known && self.wants_request(&addresses, moved).await =>
                {
                    if timeout(LOOK, connection.identified()).await.is_err() {
                        // The API server signs a node's serving certificate only for the node itself.
                        continue;
                    }
                    let mut newer = self.addresses.clone();
                    let done = tokio::select! {
                        done = self.request(connection, addresses.clone(), &pulse) => done,
                        // For the former addresses none is needed any more.
                        Ok(()) = newer.changed() => continue,
                    };
                    match done {
                        Ok(()) => {
                            (failures, requested) = (0, Some(addresses));
                            continue;
                        }
                        Err(error) => {
                            warn!("no serving certificate from the API server yet: {error}");
                            failures += 1;
                            AGAIN.nth(failures - 1)
                        }
                    }
                }
                _ => {
                    requested = Some(addresses);
                    LOOK
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                Ok(()) = self.addresses.changed() => {}
            }
        }
    }

    /// Whether there is no requested certificate, or it is near its end. `compare`: also whether it is for
    /// other addresses or another name, which is not asked again of one that was requested for these: the
    /// signer may leave out some.
    async fn wants_request(&self, addresses: &[IpAddr], compare: bool) -> bool {
        let store = Store::server(&self.source.directory);
        let pair = blocking::STATE_FILES.run(move || store.read()).await.ok().flatten();
        pair.is_none_or(|pair| {
            let is_for = |own| certificate::is_for(own, addresses, &self.source.node);
            Timestamp::now() >= pair.validity.renewal()
                || (compare && !pair.chain.first().is_some_and(is_for))
        })
    }

    async fn request(
        &self,
        connection: &Connection,
        ips: Vec<IpAddr>,
        pulse: &Pulse,
    ) -> Result<(), crate::credentials::IssueError> {
        use crate::credentials::IssueError;
        let purpose = Purpose::Server { ips, names: vec![self.source.node.clone()] };
        let store = Store::server(&self.source.directory);
        let (certificates, key) = issue(connection, &store, &purpose, || pulse.progress()).await?;
        let write = move || {
            store.add(&certificates, &key, Timestamp::now())?;
            store.forget_pending();
            Ok::<_, io::Error>(())
        };
        blocking::STATE_FILES.run(write).await.map_err(|_| IssueError::Panicked)??;
        Ok(())
    }
}

async fn read(source: &Source) -> Result<Pair, ServingError> {
    let source = source.clone();
    blocking::STATE_FILES.run(move || source.read()).await.unwrap_or(Err(ServingError::Panicked))
}

impl Source {
    /// The certificate to use now. Blocking.
    fn read(&self) -> Result<Pair, ServingError> {
        if let Some((certificate, key)) = &self.files {
            let text =
                |path: &PathBuf| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
            let pair = text(certificate).and_then(|certificates| {
                Pair::read(&certificates, &text(key)?)
                    .ok_or_else(|| "no certificate and its key as PEM".to_owned())
            });
            return pair.map_err(|cause| ServingError::Files {
                certificate: certificate.clone(),
                key: key.clone(),
                cause,
            });
        }
        let now = Timestamp::now();
        if self.request
            && let Some(pair) = Store::server(&self.directory).read()
            && !pair.validity.is_over(now)
        {
            return Ok(pair);
        }
        self.self_signed(now)
    }

    /// The self-signed certificate that is kept, or a new one.
    fn self_signed(&self, now: Timestamp) -> Result<Pair, ServingError> {
        let [certificate, key] = ["kubelet.crt", "kubelet.key"].map(|name| self.directory.join(name));
        let kept = fs::read(&certificate).ok().zip(fs::read(&key).ok());
        if let Some(pair) = kept.and_then(|(certificate, key)| Pair::read(&certificate, &key))
            && !ends_soon(&pair.validity, now)
        {
            return Ok(pair);
        }
        let own_key = KeyPair::generate()?;
        let text = self_signed(&self.node, &own_key, now)?;
        let key_text = own_key.serialize_pem();
        let written = fs::create_dir_all(&self.directory)
            .and_then(|()| private_file::write(&key, key_text.as_bytes()))
            .and_then(|()| private_file::write(&certificate, text.as_bytes()));
        if let Err(error) = written {
            warn!("the self-signed serving certificate is not kept: {}: {error}", self.directory.display());
        }
        Pair::read(text.as_bytes(), key_text.as_bytes()).ok_or(ServingError::Panicked)
    }
}

fn ends_soon(validity: &Validity, now: Timestamp) -> bool {
    now.checked_add(SELF_SIGNED[1]).is_ok_and(|then| validity.is_over(then))
}

/// A certificate for the node's name, as PEM (`GenerateSelfSignedCertKey` of k8s.io/client-go/util/cert).
fn self_signed(node: &str, key: &KeyPair, now: Timestamp) -> Result<String, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("{node}@{}", now.as_second()));
    params.subject_alt_names.push(SanType::DnsName(node.try_into()?));
    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
    let system: std::time::SystemTime = now.into();
    // An hour of difference between clocks.
    params.not_before = (system - Duration::from_secs(3600)).into();
    params.not_after = (system + SELF_SIGNED[0]).into();
    Ok(params.self_signed(key)?.pem())
}

#[cfg(test)]
mod tests;
