//! TLS of the node's server: the serving certificate, which may be renewed at any time, and the certificates
//! of clients.
//!
//! A client is asked for a certificate and may have none. The handshake only proves that it has the key;
//! whether the certificate is to be trusted is decided at each request ([`client_ca`]), as in a kubelet. So a
//! client with a bad certificate gets an answer that says so, one with a good token besides is served, and a
//! connection that outlives its certificate is not.

mod any_client;
pub mod client_ca;
mod self_signed;

use std::sync::Arc;

use nodewarden_config::{ServerSettings, TlsVersion};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use any_client::AnyClient;
pub use self_signed::{SelfSignedError, self_signed};

/// The serving certificate with its key, as it is now.
pub type Serving = watch::Receiver<Arc<CertifiedKey>>;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The settings leave nothing that can be spoken.
    #[error("TLS with the configured versions and cipher suites: {0}")]
    Settings(rustls::Error),
    /// The certificate and the key are no pair.
    #[error("serving certificate: {0}")]
    Certificate(rustls::Error),
}

/// The library's implementation of ciphers.
pub(crate) fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

/// A certificate chain, the node's own first, with the key.
///
/// # Errors
/// The key is of a kind that is not supported, or is not that of the certificate.
pub fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, TlsError> {
    CertifiedKey::from_der(chain, key, &provider()).map_err(TlsError::Certificate)
}

/// The configuration of TLS by these settings.
///
/// # Errors
/// The settings leave nothing that can be spoken.
pub fn config(settings: &ServerSettings, serving: Serving) -> Result<ServerConfig, TlsError> {
    let mut provider = provider();
    provider.cipher_suites.retain(|suite| is_offered(suite, settings));
    provider.kx_groups.retain(|group| is_preferred(group.name().into(), settings));
    let provider = Arc::new(provider);
    let clients = Arc::new(AnyClient::new(&provider));
    let versions: &[_] = match settings.tls_min_version {
        TlsVersion::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        TlsVersion::Tls13 => &[&rustls::version::TLS13],
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(TlsError::Settings)?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(Newest(serving)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Nothing of an earlier connection is kept: clients show their certificate again.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

/// Whether a cipher suite may be used. Those of TLS 1.3 cannot be chosen, as in Go.
fn is_offered(suite: &rustls::SupportedCipherSuite, settings: &ServerSettings) -> bool {
    let names = &settings.tls_cipher_suites;
    let own = suite.suite().as_str().unwrap_or_default();
    let is = |name: &String| name == own || own.strip_suffix("_SHA256") == Some(name.as_str());
    suite.tls13().is_some() || names.is_empty() || names.iter().any(is)
}

/// Whether a key exchange may be used, by its number of IANA.
fn is_preferred(group: u16, settings: &ServerSettings) -> bool {
    settings.tls_curves.is_empty() || settings.tls_curves.contains(&group)
}

/// The newest serving certificate, at each handshake.
#[derive(Debug)]
struct Newest(Serving);

impl ResolvesServerCert for Newest {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.borrow().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that the configuration calls offered are those that the library has.
    #[test]
    fn only_the_chosen_key_exchanges_are_offered() {
        let numbers = |chosen: &[u16]| {
            let settings = ServerSettings { tls_curves: chosen.to_vec(), ..ServerSettings::default() };
            let mut groups: Vec<u16> = provider().kx_groups.iter().map(|group| group.name().into()).collect();
            groups.retain(|group| is_preferred(*group, &settings));
            groups.sort_unstable();
            groups
        };
        assert_eq!(numbers(&[]), [23, 24, 29]);
        assert_eq!(numbers(&[4588, 29]), [29]);
    }

    #[test]
    fn only_the_chosen_suites_of_tls_12_are_offered() {
        let names = |chosen: &[&str]| {
            let tls_cipher_suites = chosen.iter().map(ToString::to_string).collect();
            let settings = ServerSettings { tls_cipher_suites, ..ServerSettings::default() };
            let mut suites = provider().cipher_suites;
            suites.retain(|suite| is_offered(suite, &settings) && suite.tls13().is_none());
            suites.iter().map(|suite| suite.suite().as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]).len(), 6);
        assert_eq!(
            names(&["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]),
            ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"]
        );
        assert_eq!(names(&["TLS_RSA_WITH_AES_128_CBC_SHA"]), [""; 0]);
    }
}
