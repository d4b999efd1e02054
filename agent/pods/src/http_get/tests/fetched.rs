//! Of a URL of the configuration.

use rustls::pki_types::CertificateDer;
use rustls::version::TLS13;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::*;

async fn fetched(url: &str, trust: &Trust, longest: usize) -> Result<Response, String> {
    let headers = [("Authorization", "Bearer a"), ("Host", "web"), ("X", "1"), ("X", "2")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let done = timeout(LIMIT, fetch(url, &headers, trust, longest)).await.expect("an end in time");
    done.map_err(|error| error.to_string())
}

/// Greets over TLS, with a certificate for this name that signs itself.
async fn secured(name: &str) -> (Server, CertificateDer<'static>) {
    let (acceptor, certificate) = server::acceptor_for(name, &[], &[&TLS13]);
    let serve = move |stream: TcpStream, _| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            server::request(&mut stream).await.unwrap();
            let _ = stream.write_all(&answer("200 OK", "", "hello")).await;
            let _ = stream.shutdown().await;
        }
    };
    (Server::at("127.0.0.1:0", serve).await, certificate)
}

#[tokio::test]
async fn headers_are_sent_and_every_redirect_is_followed() {
    let there = Server::answering(|_| answer("200 OK", "", "there")).await;
    let port = there.port;
    let here = Server::answering(move |number| match number {
        0 => answer("302 F", "Location: /again\r\n", ""),
        _ => answer("307 T", &format!("Location: http://localhost:{port}/b\r\n"), ""),
    })
    .await;
    let url = format!("http://127.0.0.1:{}/pods?a=b", here.port);
    assert_eq!(fetched(&url, &NO_VERIFICATION, 100).await, good("there"));
    let (first, last) = (here.requests(), there.requests());
    assert!(first[0].starts_with("GET /pods?a=b HTTP/1.1\r\n"), "{first:?}");
    for request in &first {
        for line in
            [format!("Host: 127.0.0.1:{}", here.port), "Authorization: Bearer a".into(), "X: 2".into()]
        {
            assert!(request.contains(&format!("{line}\r\n")), "{line}: {request}");
        }
    }
    assert!(last[0].contains("X: 1\r\n") && !last[0].contains("Bearer"), "another host: {last:?}");
    // Without an end.
    let round = Server::answering(|_| answer("302 F", "Location: /\r\n", "")).await;
    let error = fetched(&format!("http://127.0.0.1:{}/", round.port), &NO_VERIFICATION, 1).await.unwrap_err();
    assert!(error.ends_with("stopped after 10 redirects"), "{error}");
    assert_eq!(round.requests().len(), 10);
}

#[tokio::test]
async fn a_body_is_read_to_the_given_length() {
    let server = Server::answering(|_| answer("200 OK", "", &"x".repeat(100_000))).await;
    let url = format!("http://127.0.0.1:{}/", server.port);
    for longest in [10, 50_000, 200_000] {
        let response = fetched(&url, &NO_VERIFICATION, longest).await.unwrap();
        assert_eq!(response.body.len(), longest.min(100_000));
    }
}

#[tokio::test]
async fn certificates_have_to_be_good() {
    let (server, certificate) = secured("localhost").await;
    let (_, other) = secured("localhost").await;
    let (by_name, by_address) =
        (format!("https://localhost:{}/", server.port), format!("https://127.0.0.1:{}/", server.port));
    let good_one = Trust::by(vec![certificate]);
    assert_eq!(fetched(&by_name, &good_one, 100).await, good("hello"));
    for (url, trust, why) in [
        (&by_name, &Trust::by(vec![other]), "invalid peer certificate"),
        (&by_name, &Trust::by(Vec::new()), "invalid peer certificate"),
        (&by_address, &good_one, "not valid for name \"127.0.0.1\""),
    ] {
        let error = fetched(url, trust, 100).await.unwrap_err();
        assert!(error.starts_with("Get \"https://") && error.contains(why), "{error}");
    }
    let (server, certificate) = secured("127.0.0.1").await;
    let url = format!("https://127.0.0.1:{}/", server.port);
    assert_eq!(fetched(&url, &Trust::by(vec![certificate]), 100).await, good("hello"));
}

#[tokio::test]
async fn what_is_no_url_is_an_error() {
    for url in ["pods", "ftp://h/", "http://h h/"] {
        let error = fetched(url, &NO_VERIFICATION, 1).await.unwrap_err();
        assert!(error.starts_with(&format!("Get {url:?}: ")), "{error}");
    }
}
