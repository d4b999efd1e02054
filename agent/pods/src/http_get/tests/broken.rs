use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Reads the request, writes this, and resets the connection.
async fn resetting(after: &'static [u8]) -> Server {
    Server::at("127.0.0.1:0", move |mut stream: TcpStream, _| async move {
        server::request(&mut stream).await.unwrap();
        stream.write_all(after).await.unwrap();
        // The response is received before the reset.
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.set_zero_linger().unwrap();
    })
    .await
}

#[tokio::test]
async fn without_a_listener_the_connection_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    for scheme in [Scheme::Http, Scheme::Https] {
        let error = ask(&action(scheme, port, "/x"), "127.0.0.1").await.unwrap_err();
        let url = format!("{}://127.0.0.1:{port}/x", scheme.name());
        assert_eq!(error, format!("Get \"{url}\": dial tcp 127.0.0.1:{port}: connect: connection refused"));
    }
}

#[tokio::test]
async fn resets() {
    let server = resetting(b"").await;
    let error = plain(&server, "/").await.unwrap_err();
    let port = server.port;
    assert!(error.ends_with(&format!(": read tcp 127.0.0.1:{port}: connection reset by peer")), "{error}");
    let server = resetting(b"HTTP/1.1 200 OK\r\n").await;
    let error = plain(&server, "/").await.unwrap_err();
    assert!(error.ends_with("connection reset by peer"), "{error}");
    let server = resetting(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello").await;
    let error = plain(&server, "/").await.unwrap_err();
    assert!(error.contains(": reading the body: ") && error.ends_with("connection reset by peer"), "{error}");
    // A server that closes at once: the error depends on which end is faster.
    let server = Server::at("127.0.0.1:0", |stream, _| async move { drop(stream) }).await;
    for _ in 0..20 {
        let error = plain(&server, "/").await.unwrap_err();
        let known = [": EOF", ": connection reset by peer", ": broken pipe"];
        assert!(known.iter().any(|end| error.ends_with(end)), "{error}");
    }
}

#[tokio::test]
async fn an_incomplete_response_is_an_error() {
    let server = Server::answering(|_| Vec::new()).await;
    let error = plain(&server, "/").await.unwrap_err();
    assert_eq!(error, format!("Get \"http://127.0.0.1:{}/\": EOF", server.port));
    let server = Server::answering(|_| b"HTTP/1.1 200 OK\r\nConte".to_vec()).await;
    let error = plain(&server, "/").await.unwrap_err();
    assert!(error.ends_with(": EOF") && !error.contains("body"), "{error}");
    for short in ["Content-Length: 9\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"] {
        let server = Server::answering(move |_| format!("HTTP/1.1 200 OK\r\n{short}").into_bytes()).await;
        let action = action(Scheme::Http, server.port, "/");
        let error = timeout(LIMIT, get(&action, "127.0.0.1", Purpose::Probe)).await.unwrap().unwrap_err();
        assert!(matches!(error.fault, Fault::Body(_)), "{error}");
        assert!(error.to_string().ends_with("/\": reading the body: EOF"), "{error}");
    }
}

#[tokio::test]
async fn a_response_that_is_not_http_is_shown() {
    for (garbage, shown) in [
        (&b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n"[..], r#""SSH-2.0-OpenSSH_9.2p1 Debian""#),
        (b"\x15\x03\x01\x00\x02\x02\x16", r#""\u{15}\u{3}\u{1}\0\u{2}\u{2}\u{16}""#),
        (b"HTTP/9.9 200 OK\r\n\r\n", r#""HTTP/9.9 200 OK""#),
        (b"HTTP/1.1 xyz\r\n\r\n", r#""HTTP/1.1 xyz""#),
        (b"<html>an answer of HTTP/0.9</html>\n", r#""<html>an answer of HTTP/0.9</html>""#),
    ] {
        let server = Server::answering(move |_| garbage.to_vec()).await;
        let error = plain(&server, "/").await.unwrap_err();
        assert!(error.contains(&format!("/\": malformed HTTP response {shown}: invalid HTTP ")), "{error}");
    }
}

/// A head without an end is refused before it fills the memory.
#[tokio::test]
async fn an_endless_head() {
    let server = Server::at("127.0.0.1:0", |mut stream, _| async move {
        server::request(&mut stream).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").await.unwrap();
        server::flood(&mut stream).await;
    })
    .await;
    let error = plain(&server, "/").await.unwrap_err();
    assert!(
        error.ends_with("malformed HTTP response \"HTTP/1.1 200 OK\": message head is too large"),
        "{error}"
    );
}

/// There is no time limit of its own; dropping the request closes the connection.
#[tokio::test]
async fn a_dropped_request_closes_its_connection() {
    for begin in ["", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"] {
        let (result_sender, result) = tokio::sync::oneshot::channel();
        let mut result_sender = Some(result_sender);
        let server = Server::at("127.0.0.1:0", move |mut stream, _| {
            let result_sender = result_sender.take().unwrap();
            async move {
                server::request(&mut stream).await.unwrap();
                stream.write_all(begin.as_bytes()).await.unwrap();
                let end = tokio::io::AsyncReadExt::read(&mut stream, &mut [0]).await;
                result_sender.send(end.map_err(|error| error.kind())).unwrap();
            }
        })
        .await;
        let action = action(Scheme::Http, server.port, "/");
        let waited = timeout(Duration::from_millis(200), get(&action, "127.0.0.1", Purpose::Probe)).await;
        assert!(waited.is_err(), "{waited:?}");
        let end = timeout(LIMIT, result).await.expect("the server did not notice the end").unwrap();
        assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset));
    }
}
