//! TLS as the kubelet's client speaks it: 1.2 and 1.3, whoever the server says it is, HTTP/2 before HTTP/1.1.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, LazyLock};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Fault;
use super::socket::Overheard;

/// Made once. No session is resumed: a server is asked as if for the first time.
static CONNECTOR: LazyLock<TlsConnector> = LazyLock::new(|| {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    TlsConnector::from(Arc::new(config))
});

/// Agrees on TLS with who is at the other end. A name goes into the server name, an address does not.
///
/// # Errors
/// [`Fault::PlainAnswer`] where it speaks HTTP, or it does not agree.
pub(super) async fn secured(
    stream: TcpStream,
    host: &str,
    address: SocketAddr,
) -> Result<TlsStream<Overheard>, Fault> {
    // Small writes follow each other here: a delayed acknowledgement must not hold them up.
    stream.set_nodelay(true).map_err(|source| Fault::of_io(&source, address))?;
    // Without a name none is sent.
    let nameless = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let name = ServerName::try_from(host.to_owned()).unwrap_or(nameless);
    let connect = CONNECTOR.connect(name, Overheard::new(stream)).into_fallible();
    connect.await.map_err(|(error, stream)| match stream.first() {
        b"HTTP/" => Fault::PlainAnswer,
        _ => Fault::of_io(&error, address),
    })
}

/// Takes every certificate, and no proof that its key is there: who is not known needs none.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
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

    /// What Go's client offers.
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
