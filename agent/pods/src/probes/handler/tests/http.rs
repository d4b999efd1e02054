//! Tests of time-outs and retries of requests; their results are tested in the module itself.

use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::exec::Commands;
use super::*;
use nodewarden_manifest::{HttpGetProbe, Scheme};

/// A server that sends these responses, one per connection, and counts them; with an empty one it hangs.
async fn server(answers: Vec<&'static str>) -> (u16, JoinHandle<usize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let serve = async move {
        let mut given = 0;
        for answer in answers {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let _request = stream.read(&mut [0; 1024]).await.expect("a request");
            stream.write_all(answer.as_bytes()).await.expect("sent");
            if answer.is_empty() {
                let _gone = stream.read(&mut [0; 16]).await;
            }
            given += 1;
        }
        given
    };
    (port, tokio::spawn(serve))
}

async fn probe(port: u16, limit: Duration) -> Result<Answer, ProbeError> {
    let (path, headers) = ("/x".to_owned(), Vec::new());
    let asked = HttpGetProbe { scheme: Scheme::Http, host: None, port, path, headers };
    let spec = spec(ProbeHandler::HttpGet(asked), limit);
    Handlers { runtime: Commands::default() }.probe(&target(Some("127.0.0.1")), &spec).await
}

#[tokio::test]
async fn a_request_in_time_and_one_without_an_answer() {
    let good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";
    let (port, server) = server(vec![good, ""]).await;
    assert_eq!(probe(port, Duration::from_secs(10)).await.unwrap(), answer(Outcome::Success, "fine"));
    let seen = probe(port, Duration::from_millis(200)).await.unwrap();
    let expected =
        format!("Get \"http://127.0.0.1:{port}/x\": context deadline exceeded (no answer within 200ms)");
    assert_eq!(seen, answer(Outcome::Failure, expected));
    assert_eq!(server.await.expect("a server"), 2, "a failure is not tried again");
}

/// An incomplete response is an error of the prober, as in the kubelet.
#[tokio::test]
async fn three_tries() {
    let broken = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfine";
    let good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine";
    let limit = Duration::from_secs(10);
    let (port, served) = server(vec![broken, broken, good]).await;
    assert_eq!(probe(port, limit).await.unwrap(), answer(Outcome::Success, "fine"));
    assert_eq!(served.await.expect("a server"), 3);
    let (port, served) = server(vec![broken; 3]).await;
    let error = probe(port, limit).await.unwrap_err();
    assert!(matches!(error, ProbeError::Http(_)), "{error}");
    assert_eq!(served.await.expect("a server"), 3);
}
