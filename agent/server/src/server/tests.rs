//! The whole server over TLS, with stand-ins for the API server and the runtime.

use std::net::SocketAddr;
use std::time::Duration;

use async_trait::async_trait;
use nodewarden_cri::ExecOutput;
use nodewarden_kube::review::{Access, ReviewError};
use nodewarden_model::{ContainerState, PodView, Snapshot, Status, WaitingReason, fixture};
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, client::TlsStream};

use super::*;
use crate::guard::{Permissions, Tokens};
use crate::listen::{self, Limits};
use crate::query::StreamOptions;
use crate::tls;

mod running;

use running::*;

#[tokio::test]
async fn who_is_let_in() {
    let server = Fixture::start(|_, _| {}).await;
    let get = |path: &str, more: &str| format!("GET {path} HTTP/1.0\r\n{more}\r\n");
    let token = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let (good, bad) = (token("TOKEN"), token("other"));
    let forbidden = "Forbidden (user=bob, verb=get, resource=nodes, subresource(s)=[pods proxy])\n";
    for (name, request, status, body) in [
        (Some("admin"), get("/configz", ""), 200, r#"{"kubeletconfig":{}}"#),
        (Some("admin"), get("/configz", &bad), 200, r#"{"kubeletconfig":{}}"#),
        (Some("bob"), get("/metrics", ""), 200, "the metrics\n"),
        (Some("bob"), get("/pods", ""), 403, forbidden),
        (Some("bob"), get("/%70ods", ""), 403, forbidden),
        (None, get("/metrics", &good), 200, "the metrics\n"),
        (None, get("/metrics", &bad), 401, "Unauthorized"),
        (None, get("/metrics", ""), 401, "Unauthorized"),
        (None, get("/healthz", ""), 401, "Unauthorized"),
        (None, get("/nothing", ""), 401, "Unauthorized"),
        (Some("admin"), get("/healthz", ""), 200, "ok"),
        (Some("admin"), get("/nothing", ""), 404, "404: Page Not Found"),
        (Some("admin"), get("/%ff", ""), 400, "the path is not UTF-8"),
        (Some("admin"), "POST /pods HTTP/1.0\r\n\r\n".into(), 405, "Method Not Allowed"),
        (
            Some("admin"),
            "POST /run/a/b/c HTTP/1.0\r\nContent-Length: 9999999\r\n\r\n".into(),
            413,
            "the request has a body that nothing reads",
        ),
    ] {
        assert_eq!(server.ask(name, &request).await, (status, body.to_owned()), "{name:?} {request}");
    }
    let (status, _) =
        server.ask(Some("admin"), &get("/pods", &format!("X: {}\r\n", "x".repeat(100_000)))).await;
    assert_eq!(status, 431, "the head is too large");
    // A certificate of another issuer counts as none.
    let foreign = Fixture::start(|settings, _| settings.authentication.anonymous = true).await;
    let (own, key) = server.certificate("admin");
    let mut roots = RootCertStore::empty();
    roots.add(foreign.own.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(tls::provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![own], key)
        .unwrap();
    let stream = TcpStream::connect(foreign.address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(ServerName::try_from("node-1").unwrap(), stream).await.unwrap();
    stream.write_all(b"GET /pods HTTP/1.0\r\n\r\n").await.unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    assert!(text.contains("user=system:anonymous"), "{text}");
}

#[tokio::test]
async fn pods_and_what_runs() {
    let server = Fixture::start(|_, _| {}).await;
    let list = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    let pods = list(server.get("/pods").await.1);
    assert_eq!((&pods["kind"], &pods["items"][0]["status"]["phase"]), (&"PodList".into(), &"Running".into()));
    assert_eq!(pods["items"][0]["spec"]["nodeName"], "node-1");
    assert_eq!(pods["items"][0]["status"]["hostIP"], "192.0.2.1");
    let running = list(server.get("/runningpods/").await.1);
    assert_eq!(running["items"][0]["spec"]["containers"].as_array().unwrap().len(), 1);
    let (status, text) =
        server.ask(Some("admin"), "POST /run/shop/cart-5d9c/web?cmd=ls+-l HTTP/1.0\r\n\r\n").await;
    assert_eq!((status, text.as_str()), (200, "ls,-l!"));
    let (status, text) =
        server.ask(Some("admin"), "POST /run/shop/cart-5d9c/web?cmd=false HTTP/1.0\r\n\r\n").await;
    assert_eq!((status, text.as_str()), (500, "command 'false' exited with 1: !"));
}

#[tokio::test]
async fn logs_end_with_their_container_and_with_their_client() {
    let server = Fixture::start(|_, _| {}).await;
    let logs = server.dir.path().join("pods/shop_cart-5d9c_8c5e/web");
    std::fs::create_dir_all(&logs).unwrap();
    let line = |text: &str| format!("2026-11-23T08:00:00.000000000Z stdout F {text}\n");
    std::fs::write(logs.join("1.log"), line("old")).unwrap();
    std::fs::write(logs.join("2.log"), line("a") + &line("b")).unwrap();
    let path = "/containerLogs/shop/cart-5d9c/web";
    for (query, expected) in [
        ("", (200, "a\nb\n".to_owned())),
        ("?tailLines=1", (200, "b\n".to_owned())),
        ("?previous=true", (200, "old\n".to_owned())),
        ("?limitBytes=1", (200, "a".to_owned())),
        ("?stream=Stderr", (200, String::new())),
        ("?timestamps=true&tailLines=1", (200, "2026-11-23T08:00:00.000000000Z b\n".to_owned())),
        ("?tailLines=x", (400, r#"{"message": "Unable to decode query."}"#.to_owned())),
        ("?tailLines=-1", (422, r#"{"message": "Invalid request."}"#.to_owned())),
    ] {
        assert_eq!(server.get(&format!("{path}{query}")).await, expected, "{query}");
    }
    for (path, text) in [
        ("/containerLogs/shop/db/web", "pod \"db\" does not exist"),
        ("/containerLogs/shop/cart-5d9c/db", "container \"db\" not found in pod \"cart-5d9c\""),
    ] {
        assert_eq!(server.get(path).await, (404, text.to_owned()));
    }
    for ends in ["client", "container", "server"] {
        let mut stream = server.connect(Some("admin")).await;
        let request = format!(
            "GET {path}?follow=true&tailLines=0 HTTP/1.1\r\nHost: node-1\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = [0; 4096];
        let read = stream.read(&mut text).await.unwrap();
        assert!(text[..read].starts_with(b"HTTP/1.1 200"));
        tokio::time::sleep(Duration::from_millis(50)).await;
        let file = std::fs::OpenOptions::new().append(true).open(logs.join("2.log")).unwrap();
        std::io::Write::write_all(&mut &file, line("later").as_bytes()).unwrap();
        let read =
            tokio::time::timeout(Duration::from_secs(5), stream.read(&mut text)).await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&text[..read]).contains("later\n"));
        match ends {
            // Nothing is watched any more: checked below by the references to the pods.
            "client" => drop(stream),
            ends => {
                if ends == "container" {
                    let mut gone = fixture::pod();
                    gone.containers.iter_mut().for_each(|own| own.id = "other".into());
                    *server.pods.0.lock() = vec![Arc::new(gone)];
                } else {
                    server.stop.send_replace(true);
                }
                let mut rest = Vec::new();
                let end = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
                let _ = end.expect("the log ends");
            }
        }
        if ends == "client" {
            // The server, and no follower of a log.
            let holders = || Arc::strong_count(&server.pods);
            let began = std::time::Instant::now();
            while holders() > 2 && began.elapsed() < Duration::from_secs(5) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            assert_eq!(holders(), 2);
        }
        *server.pods.0.lock() = vec![Arc::new(fixture::pod())];
    }
}

#[tokio::test]
async fn streams_are_handed_to_the_runtime_byte_for_byte() {
    let server = Fixture::start(|_, _| {}).await;
    let upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nAuthorization: Bearer secret\r\n\
                   X-Stream-Protocol-Version: v4.channel.k8s.io\r\n";
    for (target, asked) in [
        (
            "/exec/shop/cart-5d9c/web?command=sh&command=-c&command=a%20b&output=1&error=1",
            "exec c0ffee [\"sh\", \"-c\", \"a b\"] StreamOptions { stdin: false, stdout: true, stderr: true, tty: false }",
        ),
        (
            "/attach/shop/cart-5d9c/8c5e/web?input=1&output=1&tty=1",
            "attach c0ffee StreamOptions { stdin: true, stdout: true, stderr: false, tty: false }",
        ),
        ("/portForward/shop/cart-5d9c", "forward 5afe []"),
    ] {
        let mut stream = server.connect(Some("admin")).await;
        let request = format!("POST {target} HTTP/1.1\r\nHost: node-1\r\n{upgrade}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        for _ in 0..2 {
            loop {
                head.push(stream.read_u8().await.unwrap());
                if head.ends_with(b"\r\n\r\n") {
                    break;
                }
            }
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        assert!(head.starts_with("http/1.1 101"), "{head}");
        assert!(head.contains("x-stream-protocol-version: v4.channel.k8s.io"), "{head}");
        assert!(head.contains("post /token http/1.1") && head.contains("upgrade: spdy/3.1"), "{head}");
        assert!(!head.contains("secret"), "{head}");
        let bytes: Vec<u8> = (0..300_000u32).map(|n| (n * 7) as u8).collect();
        let (mut reader, mut writer) = tokio::io::split(stream);
        let (sent, got) = tokio::join!(
            async {
                writer.write_all(&bytes).await?;
                writer.flush().await
            },
            async {
                let mut got = vec![0; bytes.len()];
                reader.read_exact(&mut got).await.map(|_| got)
            }
        );
        assert!(sent.is_ok() && got.unwrap() == bytes);
        assert_eq!(server.runtime.asked.lock().pop().unwrap(), asked);
    }
    let post = |path: &str| format!("POST {path} HTTP/1.0\r\n\r\n");
    for (path, expected) in [
        ("/exec/shop/cart-5d9c/web?output=1", (400, "Upgrade request required")),
        ("/exec/shop/cart-5d9c/web", (400, "you must specify at least 1 of stdin, stdout, stderr")),
        ("/exec/shop/db/web?output=1", (404, "pod does not exist")),
        ("/exec/shop/cart-5d9c/db?output=1", (500, "container \"db\" not found in pod \"cart-5d9c\"")),
    ] {
        let (status, text) = server.ask(Some("admin"), &post(path)).await;
        assert_eq!((status, text.as_str()), expected, "{path}");
    }
    let mut ended = fixture::pod();
    let waiting = ContainerState::Waiting { reason: WaitingReason::CrashLoopBackOff, message: String::new() };
    ended.containers.iter_mut().for_each(|own| own.state = waiting.clone());
    *server.pods.0.lock() = vec![Arc::new(ended)];
    let (status, text) = server.ask(Some("admin"), &post("/exec/shop/cart-5d9c/web?output=1")).await;
    assert_eq!(
        (status, text.as_str()),
        (500, "container not found (\"web\"): it is waiting (CrashLoopBackOff)")
    );
}

#[tokio::test]
async fn idle_streams_are_closed() {
    let server =
        Fixture::start(|settings, _| settings.streaming_idle = Some(Duration::from_millis(300))).await;
    let mut stream = server.connect(Some("admin")).await;
    let request = "GET /exec/shop/cart-5d9c/web?output=1 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut all)).await;
    let _ = end.expect("it is closed");
    assert!(all.starts_with(b"HTTP/1.1 101"));
}

#[tokio::test]
async fn hundreds_of_silent_connections_keep_no_client_out() {
    // Both ends are of this process, which may have no more files open than 1,024.
    const SILENT: usize = 400;
    let server = Fixture::start(|_, limits| limits.handshake = Duration::from_secs(60)).await;
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    // Half-open handshakes too.
    for stream in silent.iter_mut().rev().take(30) {
        let _ = stream.write_all(&[0x16, 3, 1, 0xff]).await;
    }
    let began = std::time::Instant::now();
    assert_eq!(server.get("/healthz").await.0, 200);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let mut cut = 0;
    for stream in &mut silent {
        let mut byte = [0];
        let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
        cut += usize::from(matches!(read, Ok(Ok(0) | Err(_))));
    }
    assert!(cut >= SILENT - 64, "{cut}");
}

#[tokio::test]
async fn slow_clients_are_cut() {
    let (long, short) = (Duration::from_secs(2), Duration::from_millis(200));
    let server = Fixture::start(|_, limits| (limits.handshake, limits.head) = (long, short)).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut all = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(5), silent.read_to_end(&mut all)).await;
    let _ = end.expect("a handshake that does not begin ends");
    let mut slow = server.connect(Some("admin")).await;
    slow.write_all(b"GET /pods HTTP/1.1\r\n").await.unwrap();
    let end = tokio::time::timeout(Duration::from_secs(5), slow.read_to_end(&mut all)).await;
    let _ = end.expect("a request that does not end ends");
}
