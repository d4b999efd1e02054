//! Tests of the HTTP server over loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;

use super::*;

struct Server {
    address: SocketAddr,
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
}

async fn server() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let notes = Arc::new(Notes::open(folder.path(), "s").unwrap());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, notes));
    Server { address, path: folder.path().to_owned(), _folder: folder }
}

impl Server {
    /// Sends a request. Returns the first bytes of the answer, up to `limit`, and how the connection ended.
    async fn ask(&self, request: &str, limit: usize) -> (String, std::io::Result<usize>) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        loop {
            let mut part = [0; 4096];
            match stream.read(&mut part).await {
                Ok(read) if read > 0 && bytes.len() < limit => bytes.extend_from_slice(&part[..read]),
                end => return (String::from_utf8_lossy(&bytes).into_owned(), end),
            }
        }
    }

    async fn get(&self, path: &str, headers: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\n\r\n");
        self.ask(&request, 1 << 20).await.0
    }
}

#[tokio::test]
async fn each_path_has_its_answer_and_is_written_to_the_notes() {
    let server = server().await;
    for (path, headers, beginning) in [
        ("/ok", "", "HTTP/1.1 200 "),
        ("/status/418", "", "HTTP/1.1 418 "),
        ("/to/bad?x", "", "HTTP/1.1 302 Answer\r\nLocation: /bad\r\n"),
        ("/away", "", "HTTP/1.1 302 Answer\r\nLocation: http://elsewhere.invalid/ok\r\n"),
        ("/has?X-One=1", "x-one: 1\r\n", "HTTP/1.1 200 "),
        ("/has?X-One=1", "x-one: 2\r\n", "HTTP/1.1 400 "),
        ("/nothing", "", "HTTP/1.1 404 "),
    ] {
        let answer = server.get(path, headers).await;
        assert!(answer.starts_with(beginning), "{path}: {answer}");
    }
    let noted: Vec<_> = super::super::read_notes(&server.path, "s")
        .into_iter()
        .map(|note| (note.path, note.answer))
        .collect();
    assert_eq!(noted.len(), 7);
    assert_eq!(noted[1], ("/status/418".to_owned(), "418".to_owned()));
}

#[tokio::test]
async fn a_connection_serves_several_requests() {
    let server = server().await;
    let two = "GET /ok HTTP/1.1\r\nHost: x\r\n\r\nGET /bad HTTP/1.1\r\nHost: x\r\nConnection: Close\r\n\r\n";
    let (text, end) = server.ask(two, 1 << 20).await;
    assert_eq!(
        (text.matches("HTTP/1.1 200 ").count(), text.matches("HTTP/1.1 503 ").count()),
        (1, 1),
        "{text}"
    );
    assert_eq!(end.unwrap(), 0);
}

#[tokio::test]
async fn a_reset_an_endless_body_and_no_answer() {
    let server = server().await;
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let (text, end) = server.ask(&request("/reset"), 100).await;
    assert_eq!((text.as_str(), end.unwrap_err().kind()), ("", std::io::ErrorKind::ConnectionReset));
    let (text, end) = server.ask(&request("/flood"), 1 << 20).await;
    assert!(text.len() >= 1 << 20 && end.unwrap() > 0);
    for path in ["/hang", "/half"] {
        let request = request(path);
        let silent = tokio::time::timeout(Duration::from_millis(100), server.ask(&request, 1000)).await;
        assert!(silent.is_err(), "{path} is answered to the end");
    }
}
