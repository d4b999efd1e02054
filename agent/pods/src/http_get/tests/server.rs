//! A server that does on its connections what a test determines.

use parking_lot::Mutex;
use std::io;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// A server; dropping it closes its connections.
pub struct Server {
    pub port: u16,
    /// The text received on each connection up to an empty line.
    pub requests: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// `serve` gets every connection, with its number from 0 on.
    pub async fn at<F, Serve>(address: &str, mut serve: Serve) -> Self
    where
        Serve: FnMut(TcpStream, usize) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accept = async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                connections.spawn(serve(stream, number));
            }
        };
        Self { port, requests: Arc::default(), task: tokio::spawn(accept) }
    }

    /// Reads a request on each connection, writes the response that `answer` returns for its number, and
    /// closes.
    pub async fn answering(answer: impl Fn(usize) -> Vec<u8> + Send + 'static) -> Self {
        Self::answering_at("127.0.0.1:0", answer).await
    }

    pub async fn answering_at(address: &str, answer: impl Fn(usize) -> Vec<u8> + Send + 'static) -> Self {
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = requests.clone();
        let serve = move |mut stream: TcpStream, number| {
            let (answer, seen) = (answer(number), seen.clone());
            async move {
                let request = request(&mut stream).await.unwrap();
                seen.lock().push(request);
                let _ = stream.write_all(&answer).await;
            }
        };
        let mut server = Self::at(address, serve).await;
        server.requests = requests;
        server
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

/// Reads up to an empty line, or the end.
pub async fn request<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<String> {
    let (mut request, mut bytes) = (Vec::new(), [0; 4096]);
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut bytes).await? {
            0 => break,
            n => request.extend_from_slice(&bytes[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&request).into_owned())
}

/// Writes until the peer no longer reads; returns the number of bytes written.
pub async fn flood<S: AsyncWrite + Unpin>(stream: &mut S) -> usize {
    let mut written = 0;
    while let Ok(n) = stream.write(&[b'x'; 1 << 16]).await {
        written += n;
    }
    written
}

/// TLS with a self-signed certificate for another name.
pub fn acceptor(protocols: &[&str], versions: &[&'static rustls::SupportedProtocolVersion]) -> TlsAcceptor {
    acceptor_for("elsewhere.example", protocols, versions).0
}

/// TLS with a self-signed certificate for this name or address, and the certificate.
pub fn acceptor_for(
    name: &str,
    protocols: &[&str],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> (TlsAcceptor, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), made.cert.der().clone())
}
