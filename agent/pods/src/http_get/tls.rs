//! TLS as the kubelet's clients use it: 1.2 and 1.3, HTTP/2 preferred to HTTP/1.1; for probes and hooks
//! without verification of the server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, WantsVerifier,
};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tracing::warn;

use super::Fault;
use super::stream::{PeekedStream, Stream};

/// Of probes and hooks, created once.
pub(super) static NO_VERIFICATION: LazyLock<Trust> = LazyLock::new(|| {
    let verifier = Arc::new(NoVerification);
    Trust::of(builder().dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
});

/// Which certificates of servers are accepted.
#[derive(Clone)]
pub(crate) struct Trust(TlsConnector);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

impl Trust {
    /// Certificates for the server's name by the authorities of this machine: those of OpenSSL's directories,
    /// or of `SSL_CERT_FILE` and `SSL_CERT_DIR`, as with Go. Reads files.
    pub(crate) fn of_machine() -> Self {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            warn!("the authorities of this machine: {error}");
        }
        Self::by(found.certs)
    }

    /// Certificates for the server's name by these authorities; those that cannot be read are left out.
    pub(super) fn by(authorities: Vec<CertificateDer<'static>>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities);
        Self::of(builder().with_root_certificates(roots).with_no_client_auth())
    }

    /// Sessions are not resumed: every handshake is a full one.
    fn of(mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Self(TlsConnector::from(Arc::new(config)))
    }
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
}

/// Performs the TLS handshake. A host name is sent as server name (SNI), an address is not.
///
/// # Errors
/// [`Fault::PlainAnswer`] if the server responds in plain HTTP; otherwise the failure of the handshake.
pub(super) async fn secured(
    stream: Stream,
    host: &str,
    address: SocketAddr,
    trust: &Trust,
) -> Result<TlsStream<PeekedStream>, Fault> {
    // A handshake is a series of small writes: they must not wait for delayed acknowledgements.
    stream.send_at_once().map_err(|source| Fault::of_io(&source, address))?;
    // For an address no server name is sent.
    let nameless = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let name = ServerName::try_from(host.to_owned()).unwrap_or(nameless);
    let connect = trust.0.connect(name, PeekedStream::new(stream)).into_fallible();
    connect.await.map_err(|(error, stream)| match stream.first() {
        b"HTTP/" => Fault::PlainAnswer,
        _ => Fault::of_io(&error, address),
    })
}

/// Accepts every certificate and signature, because the kubelet does not verify servers of probes and hooks.
#[derive(Debug)]
struct NoVerification;

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    /// The schemes that Go's client offers.
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ED25519,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::RSA_PKCS1_SHA1,
            SignatureScheme::ECDSA_SHA1_Legacy,
        ]
    }
}
