//! HTTPS with a self-signed certificate.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::http::{End, talk};
use super::{Notes, ServeError};

/// A TLS acceptor with a certificate for another name than the one that clients ask for.
///
/// # Errors
/// The certificate cannot be made.
pub fn acceptor() -> Result<TlsAcceptor, ServeError> {
    let made = rcgen::generate_simple_self_signed(["probed.test".to_owned()]);
    let made = made.map_err(|source| ServeError::Certificate { source })?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().and_then(
            |builder| builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key),
        );
    Ok(TlsAcceptor::from(Arc::new(config.map_err(|source| ServeError::Tls { source })?)))
}

/// Serves every connection.
pub async fn serve(listener: TcpListener, acceptor: TlsAcceptor, notes: Arc<Notes>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (acceptor, notes) = (acceptor.clone(), notes.clone());
        tokio::spawn(async move {
            // A client that does not speak TLS, or closes the connection during the handshake, gets no
            // answer.
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            if talk(&mut stream, "https", &notes).await == End::Reset {
                let _reset = stream.get_ref().0.set_zero_linger();
            }
        });
    }
}
