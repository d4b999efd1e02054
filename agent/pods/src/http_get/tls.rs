//! TLS as the kubelet's client uses it: 1.2 and 1.3, without verification of the server, HTTP/2 preferred to HTTP/1.1.

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
use super::socket::PeekedStream;

/// The configuration, created once. Sessions are not resumed: every handshake is a full one.
static CONNECTOR: LazyLock<TlsConnector> = LazyLock::new(|| {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(NoVerification))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    TlsConnector::from(Arc::new(config))
});

/// Performs the TLS handshake. A host name is sent as server name (SNI), an address is not.
///
/// # Errors
/// [`Fault::PlainAnswer`] if the server responds in plain HTTP; otherwise the failure of the handshake.
pub(super) async fn secured(
    stream: TcpStream,
    host: &str,
    address: SocketAddr,
) -> Result<TlsStream<PeekedStream>, Fault> {
    // A handshake is a series of small writes: they must not wait for delayed acknowledgements.
    stream.set_nodelay(true).map_err(|source| Fault::of_io(&source, address))?;
    // For an address no server name is sent.
    let nameless = ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let name = ServerName::try_from(host.to_owned()).unwrap_or(nameless);
    let connect = CONNECTOR.connect(name, PeekedStream::new(stream)).into_fallible();
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
