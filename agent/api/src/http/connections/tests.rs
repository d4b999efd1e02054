use std::net::SocketAddr;
use std::time::Instant;

use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use super::*;

/// Bytes of the large response: more than the sockets' buffers take.
const LARGE: usize = 32 << 20;

struct Server {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

impl Server {
    async fn start(limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get("ok\n")).route("/large", get(async || "x".repeat(LARGE)));
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async { drop(stopped.await) };
        tokio::spawn(serve(listener, router, limits, shutdown));
        Self { address, _stop: stop }
    }

    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A connection that was refused may be closed already.
        let _ = stream.write_all(text.as_bytes()).await;
        stream
    }

    async fn get(&self) -> String {
        let mut text = String::new();
        let mut stream = self.send("GET / HTTP/1.0\r\n\r\n").await;
        let _ = stream.read_to_string(&mut text).await;
        text
    }
}

fn short() -> Limits {
    let (head, stall) = (Duration::from_millis(500), Duration::from_millis(500));
    Limits { head, stall, ..Limits::default() }
}

/// Waits for the end of a connection, and returns how many bytes came before.
async fn closed(mut stream: TcpStream) -> usize {
    let mut bytes = Vec::new();
    let end = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut bytes));
    let _ = end.await.expect("the server closes it");
    bytes.len()
}

#[test]
fn addresses_of_one_client_count_together() {
    for (address, expected) in [
        ("192.0.2.7", "192.0.2.7"),
        ("127.9.9.9", "127.0.0.1"),
        ("::1", "127.0.0.1"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::1:2:3:4", "2001:db8::"),
    ] {
        assert_eq!(client(address.parse().unwrap()), expected.parse::<IpAddr>().unwrap(), "{address}");
    }
}

#[test]
fn connections_are_bounded_for_a_client_and_in_all() {
    let clients = Clients::new(Limits { total: 5, per_client: 2, ..Limits::default() });
    let of = |n: u8| clients.enter(Ipv4Addr::new(192, 0, 2, n).into());
    let mut places: Vec<_> = [1, 1, 1, 2, 3, 3, 4].map(of).into_iter().collect();
    let entered: Vec<bool> = places.iter().map(Option::is_some).collect();
    assert_eq!(entered, [true, true, false, true, true, true, false]);
    places.remove(0);
    assert!(of(1).is_some());
    places.clear();
    assert!(clients.open.lock().is_empty());
}

/// The review's attack: thousands of requests whose heads never end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_requests_are_refused_or_cut_and_others_are_answered() {
    let wanted = 5_000;
    let (soft, hard) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    // Both ends of each are in this process.
    let possible = soft.max(hard.min(16_384));
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, possible, hard).unwrap();
    let many = wanted.min(usize::try_from(possible / 3).unwrap());
    let limits = short();
    let server = Server::start(limits).await;
    let mut streams = Vec::new();
    let mut alive = 0;
    for _ in 0..many {
        streams.push(server.send("GET /metrics HTTP/1.1\r\nHost: a\r\nX-Half: ").await);
    }
    for stream in &streams {
        // What was refused is closed or reset by now, or will be in a moment.
        alive += usize::from(
            matches!(stream.try_read(&mut [0; 64]), Err(error) if error.kind() == ErrorKind::WouldBlock),
        );
    }
    assert!(alive <= 4 * limits.per_client, "{alive} of {many} are open");
    let begun = Instant::now();
    for stream in streams {
        closed(stream).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(server.get().await.starts_with("HTTP/1.0 200"), "the next request is answered");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = Server::start(short()).await;
    let (silent, kept) = (server.send("").await, server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await);
    assert_eq!(closed(silent).await, 0);
    assert!(closed(kept).await > 0, "after its response");
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut() {
    let server = Server::start(Limits { per_client: 1, ..short() }).await;
    let stream = server.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let begun = Instant::now();
    // There is one place: the next request is answered when it is free again.
    while !server.get().await.starts_with("HTTP/1.0 200") {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the place of the stalled connection is free again"
        );
        sleep(Duration::from_millis(20)).await;
    }
    assert!(begun.elapsed() >= Duration::from_millis(400), "{:?}", begun.elapsed());
    drop(stream);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let server = Server::start(Limits::default()).await;
    let mut text = String::new();
    let large = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(64 << 10));
    let mut stream = server.send(&large).await;
    let _ = stream.read_to_string(&mut text).await;
    assert!(!text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(server.get().await.starts_with("HTTP/1.0 200"));
}
