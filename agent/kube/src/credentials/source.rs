//! Where the credentials are: files, read on a thread for blocking work.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use kube::client::ClientBuilder;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use nodewarden_config::KubernetesSettings;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;
use tower::util::MapResponseLayer;

use super::State;
use super::certificate::Validity;
use super::store::Store;
use crate::KubeError;
use crate::gate::Gate;
use crate::starting;
use nodewarden_storage::private_file;

/// The files that the configuration names.
#[derive(Debug, Clone)]
pub struct Source {
    /// `None` for the credentials of the pod in which the agent runs.
    kubeconfig: Option<PathBuf>,
    bootstrap: Option<PathBuf>,
    rotate: bool,
    store: Store,
    gate: Gate,
    repeats: bool,
}

impl Source {
    /// By the settings; clients that it makes are behind the gate, and repeat requests after a 429 if
    /// `repeats`.
    pub fn new(settings: &KubernetesSettings, gate: Gate, repeats: bool) -> Self {
        Self {
            kubeconfig: settings.kubeconfig.clone(),
            bootstrap: settings.bootstrap_kubeconfig.clone(),
            rotate: settings.rotate_certificates,
            store: Store::client(&settings.cert_dir),
            gate,
            repeats,
        }
    }

    /// Where client certificates are kept.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether a client certificate is to be requested now: the present credentials are for nothing else, or
    /// are near their end.
    pub fn wants_certificate(&self, state: &State, now: Timestamp) -> bool {
        state.bootstrap || (self.rotate && state.validity.is_some_and(|validity| now >= validity.renewal()))
    }

    /// What to report if the client certificate in use has ended.
    pub fn ended(&self, state: &State, now: Timestamp) -> Option<String> {
        let until = state.validity.filter(|validity| validity.is_over(now))?.until;
        let path = self.kubeconfig.as_deref().unwrap_or(Path::new("")).display();
        Some(format!(
            "the client certificate of kubeconfig {path} ended at {until}: the API server refuses it; pods that run go on, \
             and a new certificate or kubeconfig is used as soon as it is there"
        ))
    }

    /// The client and what is known of its credentials; `None` if the files are those of `known`. Blocking;
    /// inside a tokio runtime.
    ///
    /// # Errors
    /// A file cannot be read, or its content is no credentials.
    pub fn read(&self, known: Option<[u8; 32]>) -> Result<Option<(kube::Client, State)>, KubeError> {
        let Some(path) = &self.kubeconfig else { return self.in_cluster(known) };
        let (path, bootstrap) = self.usable(path);
        let fail = |source| KubeError::Kubeconfig { path: path.to_owned(), source: Box::new(source) };
        let mut file = Kubeconfig::read_from(path).map_err(fail)?;
        let mut validity = identity(&file);
        if !bootstrap
            && self.rotate
            && let Some(pair) = self.store.read()
            && !pair.validity.is_over(Timestamp::now())
            && validity.is_none_or(|own| own.until < pair.validity.until)
        {
            validity = Some(pair.validity);
            use_current(&mut file, &self.store.current());
        }
        let digest = digest(&file);
        if known == Some(digest) {
            return Ok(None);
        }
        let config = Handle::current()
            .block_on(kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()));
        let gate = if bootstrap { self.gate.of_bootstrap() } else { self.gate.clone() };
        let client = client(config.map_err(fail)?, &gate, self.repeats)?;
        Ok(Some((client, State { digest, bootstrap, validity })))
    }

    fn in_cluster(&self, known: Option<[u8; 32]>) -> Result<Option<(kube::Client, State)>, KubeError> {
        let config = kube::Config::incluster().map_err(KubeError::InCluster)?;
        let mut digest = Sha256::new();
        config.root_cert.iter().flatten().for_each(|certificate| digest.update(certificate));
        let digest = digest.finalize().into();
        if known == Some(digest) {
            return Ok(None);
        }
        Ok(Some((
            client(config, &self.gate, self.repeats)?,
            State { digest, bootstrap: false, validity: None },
        )))
    }

    /// The kubeconfig, or that for bootstrapping if it does not exist or its certificate has ended
    /// (`isClientConfigStillValid`).
    fn usable<'a>(&'a self, path: &'a Path) -> (&'a Path, bool) {
        let Some(bootstrap) = &self.bootstrap else { return (path, false) };
        let missing = matches!(fs::metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound);
        let over = || {
            let own = Kubeconfig::read_from(path).ok().and_then(|file| identity(&file));
            let newest = own.into_iter().chain(self.store.read().map(|pair| pair.validity));
            newest.map(|validity| validity.until).max().is_some_and(|until| Timestamp::now() >= until)
        };
        if missing || over() { (bootstrap, true) } else { (path, false) }
    }

    /// Writes the kubeconfig after bootstrapping: the cluster of the bootstrap kubeconfig, and the
    /// certificate in `--cert-dir`.
    ///
    /// # Errors
    /// The bootstrap kubeconfig cannot be read, or the other one not written.
    pub fn write_kubeconfig(&self) -> io::Result<()> {
        let (Some(path), Some(bootstrap)) = (&self.kubeconfig, &self.bootstrap) else { return Ok(()) };
        let file = Kubeconfig::read_from(bootstrap).map_err(io::Error::other)?;
        let cluster = context(&file).map(|context| context.cluster.clone());
        let cluster = file.clusters.into_iter().find(|own| Some(&own.name) == cluster.as_ref());
        let cluster =
            cluster.and_then(|own| own.cluster).ok_or_else(|| io::Error::other("no cluster in it"))?;
        let current = self.store.current();
        let content = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "default-cluster", "cluster": cluster}],
            "users": [{
                "name": "default-auth",
                "user": {"client-certificate": current, "client-key": current},
            }],
            "contexts": [{
                "name": "default-context",
                "context": {"cluster": "default-cluster", "namespace": "default", "user": "default-auth"},
            }],
            "current-context": "default-context",
        });
        let text = serde_json::to_vec_pretty(&content)?;
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)?;
        }
        private_file::write(path, &text)
    }
}

/// A client for a command: with the credentials of `$KUBECONFIG` or `~/.kube/config`, else of the pod in
/// which it runs.
///
/// # Errors
/// There are none, or they are not valid.
pub async fn of_command() -> Result<kube::Client, KubeError> {
    let config = kube::Config::infer().await.map_err(KubeError::Infer)?;
    kube::Client::try_from(config).map_err(|error| KubeError::Client(Box::new(error)))
}

fn client(mut config: kube::Config, gate: &Gate, repeats: bool) -> Result<kube::Client, KubeError> {
    // Without TLS there is nothing to verify: a machine without certificates of authorities will do.
    if config.root_cert.is_none() && config.cluster_url.scheme_str() == Some("http") {
        config.root_cert = Some(Vec::new());
    }
    config.default_retry = repeats;
    let builder = ClientBuilder::try_from(config).map_err(|error| KubeError::Client(Box::new(error)))?;
    Ok(builder.with_layer(&MapResponseLayer::new(starting::correct)).with_layer(gate).build())
}

fn context(file: &Kubeconfig) -> Option<&kube::config::Context> {
    let current = file.current_context.as_ref()?;
    file.contexts.iter().find(|own| &own.name == current)?.context.as_ref()
}

/// The user of the current context.
fn user(file: &mut Kubeconfig) -> Option<&mut AuthInfo> {
    let name = context(file)?.user.clone()?;
    file.auth_infos.iter_mut().find(|own| own.name == name)?.auth_info.as_mut()
}

/// When the client certificate of the current context is valid.
fn identity(file: &Kubeconfig) -> Option<Validity> {
    let mut file = file.clone();
    let user = user(&mut file)?;
    let text = match (&user.client_certificate_data, &user.client_certificate) {
        (Some(data), _) => decoded(data)?,
        (None, Some(path)) => fs::read(path).ok()?,
        (None, None) => return None,
    };
    first_validity(&text)
}

/// The base64 of a kubeconfig's data, by the decoder of the API's byte strings.
fn decoded(data: &str) -> Option<Vec<u8>> {
    let text = serde_json::Value::String(data.trim().to_owned());
    serde_json::from_value::<k8s_openapi::ByteString>(text).ok().map(|bytes| bytes.0)
}

fn first_validity(text: &[u8]) -> Option<Validity> {
    use rustls::pki_types::pem::PemObject;
    let certificate = rustls::pki_types::CertificateDer::pem_slice_iter(text).next()?.ok()?;
    Validity::of(&certificate)
}

/// Makes the user of the current context the newest certificate of `--cert-dir`.
fn use_current(file: &mut Kubeconfig, current: &Path) {
    let path = current.to_string_lossy().into_owned();
    if let Some(user) = user(file) {
        *user = AuthInfo {
            client_certificate: Some(path.clone()),
            client_key: Some(path),
            ..AuthInfo::default()
        };
    }
}

/// Changes when the kubeconfig or a file that it names does. Token files are not read: each client follows
/// its own.
fn digest(file: &Kubeconfig) -> [u8; 32] {
    let mut digest = Sha256::new();
    digest.update(serde_json::to_vec(file).unwrap_or_default());
    let mut update = |path: &Option<String>| {
        if let Some(content) = path.as_ref().and_then(|path| fs::read(path).ok()) {
            digest.update(content.len().to_le_bytes());
            digest.update(content);
        }
    };
    for cluster in file.clusters.iter().filter_map(|own| own.cluster.as_ref()) {
        update(&cluster.certificate_authority);
    }
    for user in file.auth_infos.iter().filter_map(|own| own.auth_info.as_ref()) {
        update(&user.client_certificate);
        update(&user.client_key);
    }
    digest.finalize().into()
}
