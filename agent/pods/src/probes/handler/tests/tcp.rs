use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::time::Instant;

use tokio::net::{TcpSocket, TcpStream};

use super::exec::Commands;
use super::sockets::nothing_is_left;
use super::*;

/// A time-out that is never reached.
const PLENTY: Duration = Duration::from_secs(10);

async fn probe(
    host: Option<&str>,
    port: u16,
    address: Option<&str>,
    limit: Duration,
) -> Result<Answer, ProbeError> {
    let spec = spec(ProbeHandler::TcpSocket { host: host.map(str::to_owned), port }, limit);
    Handlers { runtime: Commands::default() }.probe(&target(address), &spec).await
}

fn port(listener: &TcpListener) -> u16 {
    listener.local_addr().expect("bound").port()
}

/// The kernel accepts the connection; the application does not have to.
#[tokio::test]
async fn an_open_port() {
    let success = answer(Outcome::Success, "");
    let v4 = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    assert_eq!(probe(None, port(&v4), Some("127.0.0.1"), PLENTY).await.unwrap(), success);
    // The host of the probe takes precedence over the pod's address.
    assert_eq!(probe(Some("127.0.0.1"), port(&v4), Some("192.0.2.1"), PLENTY).await.unwrap(), success);
    // A name may have several addresses: the first that accepts is enough.
    assert_eq!(probe(Some("localhost"), port(&v4), None, PLENTY).await.unwrap(), success);
    let v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).expect("a port");
    assert_eq!(probe(None, port(&v6), Some("::1"), PLENTY).await.unwrap(), success);
    assert_eq!(probe(Some("::1"), port(&v6), None, PLENTY).await.unwrap(), success);
}

#[tokio::test]
async fn a_closed_port() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = port(&listener);
    drop(listener);
    for (address, place) in [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")] {
        let expected = format!("dial tcp {place}:{port}: connect: connection refused");
        let seen = probe(None, port, Some(address), PLENTY).await.unwrap();
        assert_eq!(seen, answer(Outcome::Failure, expected));
    }
}

#[tokio::test]
async fn nowhere_to_go() {
    let error = probe(None, 1, None, PLENTY).await.unwrap_err();
    assert!(matches!(error, ProbeError::NoAddress), "{error}");
    // RFC 6761: this name has no address.
    let seen = probe(Some("host.invalid"), 1, None, PLENTY).await.unwrap();
    assert_eq!(seen.outcome, Outcome::Failure);
    assert!(seen.output.starts_with("dial tcp: lookup host.invalid: "), "{}", seen.output);
}

/// If the accept queue is full, the kernel lets further connections wait.
#[tokio::test]
async fn a_full_backlog() {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("an address");
    let listener = socket.listen(0).expect("a listener");
    let port = listener.local_addr().expect("bound").port();
    let (mut held, short) = (Vec::new(), Duration::from_millis(300));
    let place = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    while let Ok(stream) = timeout(short, TcpStream::connect(place)).await {
        held.push(stream.expect("a connection"));
        assert!(held.len() < 16, "the queue has no end");
    }
    let begun = Instant::now();
    let seen = probe(None, port, Some("127.0.0.1"), short).await.unwrap();
    assert_eq!(seen, answer(Outcome::Failure, format!("dial tcp 127.0.0.1:{port}: i/o timeout")));
    assert!(begun.elapsed() >= short && begun.elapsed() < PLENTY, "{:?}", begun.elapsed());
}

/// This also holds for connections that the application has accepted and keeps open.
#[tokio::test]
async fn no_socket_is_left() {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let server = tokio::spawn(async move {
        let mut held = Vec::new();
        for _ in 0..50 {
            held.push(listener.accept().await.expect("a connection"));
        }
        held
    });
    for _ in 0..50 {
        let seen = probe(None, port, Some("127.0.0.1"), PLENTY).await.unwrap();
        assert_eq!(seen.outcome, Outcome::Success);
    }
    let held = server.await.expect("a server");
    nothing_is_left(port).await;
    drop(held);
}
