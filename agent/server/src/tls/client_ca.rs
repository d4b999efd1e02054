//! Whether a client's certificate is to be trusted: by the certificates of
//! `authentication.x509.clientCAFile`, which is read again when it changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nodewarden_kube::review::User;
use nodewarden_tasks::{blocking, parts};
use parking_lot::RwLock;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use crate::identity;

/// How often the file is read.
const LOOK: Duration = Duration::from_secs(10);
/// How long one poll of the task may take: it does not block.
const POLL: Duration = Duration::from_secs(60);
/// The largest file that is read, in bytes.
const LARGEST: u64 = 4 << 20;

/// Why the file gives no certificates.
#[derive(Debug, thiserror::Error)]
pub enum CaError {
    /// It cannot be read.
    #[error("read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// It has no certificates, or some that are none.
    #[error("{}: {message}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
}

/// The certificates that sign those of clients. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct ClientCa(Arc<RwLock<Option<Arc<dyn ClientCertVerifier>>>>);

impl ClientCa {
    /// Those of a file, and as long as the result lives, those that are written there later. A file that
    /// cannot be used is reported in the log, and the certificates of before stay. Must be called inside a
    /// tokio runtime.
    pub fn follow(path: &Path) -> Self {
        let (this, path) = (Self::default(), path.to_owned());
        let shared = Arc::downgrade(&this.0);
        let task = async move {
            let (mut last, mut reported) = (None, String::new());
            loop {
                let (file, before) = (path.clone(), last.clone());
                let read = blocking::STATE_FILES.run(move || changed(&file, before.as_deref())).await;
                let (Some(shared), Ok(read)) = (shared.upgrade(), read) else { return };
                match read {
                    Ok(Some((content, verifier))) => {
                        if last.replace(content).is_some() {
                            tracing::info!(path = %path.display(), "those who sign certificates of clients have changed");
                        }
                        *shared.write() = Some(verifier);
                        reported.clear();
                    }
                    Ok(None) => reported.clear(),
                    // Once, not at every look.
                    Err(error) if reported == error.to_string() => {}
                    Err(error) => {
                        reported = error.to_string();
                        tracing::warn!(error = reported, "the certificates of those who sign for clients");
                    }
                }
                drop(shared);
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::spawn(parts::register("client CA", POLL).task(task));
        this
    }

    /// The user of a client's certificate, which comes first in the chain that it sent.
    ///
    /// # Errors
    /// Why the certificate is not accepted.
    pub fn user(&self, chain: &[CertificateDer<'_>]) -> Result<User, String> {
        let Some((own, above)) = chain.split_first() else { return Err("there is no certificate".into()) };
        let verifier = self.0.read().clone();
        let Some(verifier) = verifier else { return Err("no certificate of a client is accepted".into()) };
        verifier.verify_client_cert(own, above, UnixTime::now()).map_err(|error| error.to_string())?;
        identity::of_certificate(own).ok_or_else(|| "the certificate has no common name".into())
    }
}

/// What a file has: its content, and what verifies certificates.
type Read = (Vec<u8>, Arc<dyn ClientCertVerifier>);

/// Reads the file; `None` if it is as `before`.
fn changed(path: &Path, before: Option<&[u8]>) -> Result<Option<Read>, CaError> {
    let fail = |source| CaError::Read { path: path.to_owned(), source };
    if fs::metadata(path).map_err(fail)?.len() > LARGEST {
        return Err(content(path, format!("it has more than {LARGEST} bytes")));
    }
    let read = fs::read(path).map_err(fail)?;
    if before == Some(&*read) {
        return Ok(None);
    }
    let verifier = verifier(&read).map_err(|message| content(path, message))?;
    Ok(Some((read, verifier)))
}

fn content(path: &Path, message: String) -> CaError {
    CaError::Content { path: path.to_owned(), message }
}

/// Verifies what the certificates of a PEM file have signed.
fn verifier(pem: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("{error:?}"))?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let built =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(super::provider())).build();
    built.map_err(|error| error.to_string()).map(|verifier| verifier as _)
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    };

    use super::*;

    fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn client(
        by: &CertifiedIssuer<'static, KeyPair>,
        change: impl FnOnce(&mut CertificateParams),
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "admin");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        params.signed_by(&KeyPair::generate().unwrap(), by).unwrap().der().clone()
    }

    fn of(authority: &CertifiedIssuer<'static, KeyPair>) -> ClientCa {
        ClientCa(Arc::new(RwLock::new(Some(verifier(authority.pem().as_bytes()).unwrap()))))
    }

    #[test]
    fn only_certificates_of_clients_that_are_signed_and_valid_count() {
        let (own, foreign) = (authority("own"), authority("foreign"));
        let ca = of(&own);
        assert_eq!(ca.user(&[client(&own, |_| {})]).unwrap().name, "admin");
        let refused = |certificate| ca.user(&[certificate]).unwrap_err();
        assert!(refused(client(&foreign, |_| {})).contains("UnknownIssuer"));
        let expired = client(&own, |params| {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        });
        assert!(refused(expired).contains("xpired"));
        let serving = client(&own, |p| p.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth]);
        let why = refused(serving);
        assert!(why.contains("extended key usage"), "{why}");
        let unnamed = client(&own, |params| params.distinguished_name = rcgen::DistinguishedName::new());
        assert_eq!(refused(unnamed), "the certificate has no common name");
        assert_eq!(ca.user(&[]).unwrap_err(), "there is no certificate");
        let none = ClientCa::default();
        assert!(none.user(&[client(&own, |_| {})]).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_changes_is_read_again_and_a_bad_one_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.crt");
        let (first, second) = (authority("first"), authority("second"));
        let ca = ClientCa::follow(&path);
        let accepted = |by| ca.user(&[client(by, |_| {})]).is_ok();
        let settle = async || {
            // The clock is stopped, the reading thread is not.
            for _ in 0..50 {
                tokio::time::sleep(LOOK).await;
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        settle().await;
        assert!(!accepted(&first), "there is no file yet");
        for (content, expected) in [
            (first.pem(), (true, false)),
            ("nothing".to_owned(), (true, false)),
            (second.pem(), (false, true)),
            (first.pem() + &second.pem(), (true, true)),
        ] {
            fs::write(&path, content).unwrap();
            settle().await;
            assert_eq!((accepted(&first), accepted(&second)), expected);
        }
    }
}
