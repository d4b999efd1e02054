use parking_lot::Mutex;
use std::convert::Infallible;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::version::{TLS12, TLS13};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::*;

/// Answers every request over TLS.
async fn http1(protocols: &'static [&'static str], body: Vec<u8>) -> Server {
    secured(protocols, &[&TLS13, &TLS12], body).await
}

async fn secured(
    protocols: &'static [&'static str],
    versions: &[&'static rustls::SupportedProtocolVersion],
    body: Vec<u8>,
) -> Server {
    let acceptor = server::acceptor(protocols, versions);
    Server::at("127.0.0.1:0", move |stream: TcpStream, _| {
        let (acceptor, body) = (acceptor.clone(), body.clone());
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            server::request(&mut stream).await.unwrap();
            let _ = stream.write_all(&body).await;
            let _ = stream.shutdown().await;
        }
    })
    .await
}

type Seen = Arc<Mutex<Vec<String>>>;

/// HTTP/2 over TLS: `/flood` has a long body, `/away` sends to plain HTTP at `port`, the rest is greeted.
async fn http2(port: u16) -> (Server, Seen) {
    let (acceptor, seen) = (server::acceptor(&["h2"], &[&TLS13, &TLS12]), Seen::default());
    let log = seen.clone();
    let serve = move |stream: TcpStream, _| {
        let (acceptor, log) = (acceptor.clone(), log.clone());
        async move {
            let stream = acceptor.accept(stream).await.unwrap();
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                log.lock().push(format!("{:?} {} {:?}", request.version(), request.uri(), request.headers()));
                let answer = hyper::Response::builder();
                let answer = match request.uri().path() {
                    "/flood" => answer.body(Full::new(Bytes::from(vec![b'x'; 1 << 20]))),
                    "/away" => {
                        let to = format!("http://127.0.0.1:{port}/plain");
                        answer.status(302).header("Location", to).body(Full::default())
                    }
                    _ => answer.body(Full::from("hello")),
                };
                async { Ok::<_, Infallible>(answer.unwrap()) }
            });
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        }
    };
    (Server::at("127.0.0.1:0", serve).await, seen)
}

async fn over_tls(server: &Server, path: &str) -> Result<Response, String> {
    ask(&action(Scheme::Https, server.port, path), "127.0.0.1").await
}

#[tokio::test]
async fn certificates_are_not_verified() {
    let body = answer("200 OK", "", "hello");
    for protocols in [&[][..], &["http/1.1"], &["http/1.1", "h2"]] {
        let server = http1(protocols, body.clone()).await;
        assert_eq!(over_tls(&server, "/").await, good("hello"), "{protocols:?}");
        // A host name is sent to the server; it does not have to match the certificate.
        assert_eq!(ask(&action(Scheme::Https, server.port, "/"), "localhost").await, good("hello"));
    }
    for version in [&TLS12, &TLS13] {
        let server = secured(&[], &[version], body.clone()).await;
        assert_eq!(over_tls(&server, "/").await, good("hello"), "{version:?}");
    }
}

#[tokio::test]
async fn http_2() {
    let (server, seen) = http2(0).await;
    let mut action = action(Scheme::Https, server.port, "/a?b");
    action.headers = vec![("Host".into(), "web".into()), ("X".into(), "1".into())];
    assert_eq!(ask(&action, "127.0.0.1").await, good("hello"));
    let line = seen.lock()[0].clone();
    assert!(line.starts_with("HTTP/2.0 https://web/a?b "), "{line}");
    assert!(
        line.contains("\"x\": \"1\"") && line.contains("kube-probe/") && !line.contains("connection"),
        "{line}"
    );
    assert_eq!(over_tls(&server, "/flood").await.unwrap().body, vec![b'x'; LONGEST_BODY]);
}

#[tokio::test]
async fn redirects_between_http_and_https() {
    let there = Server::answering(|_| answer("200 OK", "", "plain")).await;
    let (secure, _) = http2(there.port).await;
    assert_eq!(over_tls(&secure, "/away").await, good("plain"));
    // A redirect from HTTPS to HTTP has no Referer.
    assert!(!there.requests()[0].contains("Referer"), "{:?}", there.requests());
    let port = secure.port;
    let to = format!("Location: https://127.0.0.1:{port}/\r\n");
    let here = Server::answering(move |_| answer("302 F", &to, "")).await;
    assert_eq!(plain(&here, "/").await, good("hello"));
}

#[tokio::test]
async fn bodies_over_tls_are_cut_or_incomplete() {
    let mut long = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    long.resize(1 << 20, b'x');
    let server = http1(&[], long).await;
    assert_eq!(over_tls(&server, "/").await.unwrap().body, vec![b'x'; LONGEST_BODY]);
    let server = http1(&[], b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello".to_vec()).await;
    let error = over_tls(&server, "/").await.unwrap_err();
    assert!(error.ends_with(": reading the body: EOF"), "{error}");
}

#[tokio::test]
async fn a_server_without_tls_is_reported() {
    let server = Server::at("127.0.0.1:0", |mut stream, _| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await;
    })
    .await;
    let error = over_tls(&server, "/").await.unwrap_err();
    assert!(error.ends_with("/\": server gave HTTP response to HTTPS client"), "{error}");
    let server = Server::at("127.0.0.1:0", |mut stream, _| async move {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n").await;
        let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await;
    })
    .await;
    let error = over_tls(&server, "/").await.unwrap_err();
    assert!(error.contains("/\": tls: "), "{error}");
    let server = Server::at("127.0.0.1:0", |mut stream, _| async move {
        let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await;
    })
    .await;
    let error = over_tls(&server, "/").await.unwrap_err();
    assert!(error.ends_with("/\": EOF"), "{error}");
    // The opposite case: plain HTTP to a TLS server.
    let server = http1(&[], Vec::new()).await;
    let error = plain(&server, "/").await.unwrap_err();
    assert!(error.contains("malformed HTTP response") || error.ends_with(": EOF"), "{error}");
}
