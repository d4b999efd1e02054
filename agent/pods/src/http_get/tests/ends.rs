//! No socket and no task is left of a request.

use std::pin::pin;
use std::time::Instant;

use futures_util::future::{Either, select};
use rustls::version::TLS13;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const LISTEN: &str = "0A";

/// The states of the node's sockets with this port at either end, except listening ones.
fn sockets(port: u16) -> Vec<String> {
    let hex = format!(":{port:04X}");
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let here = rows.filter(|row| row[1].ends_with(&hex) || row[2].ends_with(&hex));
    here.filter(|row| row[3] != LISTEN).map(|row| row[1..4].join(" ")).collect()
}

/// The new ones that are still there after both ends had time to close; TIME_WAIT takes a minute.
async fn left(port: u16, before: &[String]) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let mut left = sockets(port);
        left.retain(|socket| !before.contains(socket));
        if left.is_empty() || begun.elapsed() > Duration::from_secs(3) {
            return left;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Shows that the check finds the socket of a stream that is closed as usual.
#[tokio::test]
async fn a_plain_close_leaves_something() {
    let server = Server::at("127.0.0.1:0", |mut stream, _| async move {
        let _ = stream.read(&mut [0]).await;
    })
    .await;
    let before = sockets(server.port);
    drop(TcpStream::connect(("127.0.0.1", server.port)).await.unwrap());
    let left = left(server.port, &before).await;
    assert!(left.len() == 1 && left[0].ends_with("06"), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_time_wait() {
    let closing = Server::answering(|_| answer("200 OK", "", "hello")).await;
    let keeping = Server::at("127.0.0.1:0", |mut stream, _| async move {
        server::request(&mut stream).await.unwrap();
        stream.write_all(&answer("200 OK", "", "hello")).await.unwrap();
        let _ = stream.read(&mut [0]).await;
    })
    .await;
    let flooding = Server::answering(|_| answer("200 OK", "", &"x".repeat(1 << 20))).await;
    let garbage = Server::answering(|_| b"SSH-2.0\r\n".to_vec()).await;
    let hanging = Server::at("127.0.0.1:0", |mut stream, _| async move {
        while stream.read(&mut [0; 4096]).await.is_ok_and(|n| n > 0) {}
    })
    .await;
    let acceptor = server::acceptor(&[], &[&TLS13]);
    let secure = Server::at("127.0.0.1:0", move |stream, _| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            server::request(&mut stream).await.unwrap();
            let _ = stream.write_all(&answer("200 OK", "", "hello")).await;
            let _ = stream.shutdown().await;
        }
    })
    .await;
    for (name, server, scheme) in [
        ("closing", &closing, Scheme::Http),
        ("keeping", &keeping, Scheme::Http),
        ("flooding", &flooding, Scheme::Http),
        ("garbage", &garbage, Scheme::Http),
        ("hanging", &hanging, Scheme::Http),
        ("hanging in the handshake", &hanging, Scheme::Https),
        ("secure", &secure, Scheme::Https),
    ] {
        let action = action(scheme, server.port, "/");
        // Another server may have used the same port before.
        let before = sockets(server.port);
        let mut answered = 0;
        for _ in 0..20 {
            let limit = if name.starts_with("hanging") { Duration::from_millis(10) } else { LIMIT };
            let done = timeout(limit, get(&action, "127.0.0.1", Purpose::Probe)).await;
            answered += usize::from(matches!(done, Ok(Ok(_))));
        }
        let expected = if name == "garbage" || name.starts_with("hanging") { 0 } else { 20 };
        assert_eq!(answered, expected, "{name}");
        let left = left(server.port, &before).await;
        assert!(left.is_empty(), "{name}: {left:?}");
    }
}

/// A request runs in the caller's future and starts no task.
#[tokio::test]
async fn no_task_runs_outside_the_request() {
    let acceptor = server::acceptor(&["h2"], &[&TLS13]);
    let (result_sender, mut result) = tokio::sync::mpsc::unbounded_channel();
    let server = Server::at("127.0.0.1:0", move |stream, _| {
        let (acceptor, result_sender) = (acceptor.clone(), result_sender.clone());
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            // The preface, and an empty SETTINGS back: the request is under way.
            stream.read_exact(&mut [0; 24]).await.unwrap();
            stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
            result_sender.send(None).unwrap();
            let end = loop {
                match stream.read(&mut [0; 4096]).await {
                    Ok(n) if n > 0 => {}
                    end => break end,
                }
            };
            result_sender.send(Some(end.map_err(|error| error.kind()))).unwrap();
        }
    })
    .await;
    let action = action(Scheme::Https, server.port, "/");
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks(), 1, "the task that accepts");
    {
        let asking = pin!(get(&action, "127.0.0.1", Purpose::Probe));
        let begun = pin!(async { assert_eq!(result.recv().await, Some(None)) });
        let first = timeout(LIMIT, select(asking, begun)).await.unwrap();
        assert!(matches!(first, Either::Right(_)));
        assert_eq!(tasks(), 2, "and the one that serves the connection");
    }
    let end =
        timeout(LIMIT, result.recv()).await.expect("the server did not notice the end").unwrap().unwrap();
    assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset));
}
