use parking_lot::Mutex;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_health::server::health_reporter;

use super::exec::Commands;
use super::sockets::nothing_is_left;
use super::*;

/// A time-out that is never reached.
const PLENTY: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(200);

async fn probe(address: &str, port: u16, service: &str, limit: Duration) -> Answer {
    let spec = spec(ProbeHandler::Grpc { port, service: service.into() }, limit);
    let handlers = Handlers { runtime: Commands::default() };
    handlers.probe(&target(Some(address)), &spec).await.expect("no error of the prober")
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}

fn serve(listener: TcpListener, routes: Routes) -> AbortHandle {
    let server = Server::builder().add_routes(routes).serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(async move { server.await.expect("a server") }).abort_handle()
}

/// A health service with `good` and `bad`; the server as a whole is `good`.
async fn health() -> Routes {
    let (reporter, service) = health_reporter();
    reporter.set_service_status("good", ServingStatus::Serving).await;
    reporter.set_service_status("bad", ServingStatus::NotServing).await;
    reporter.set_service_status("odd", ServingStatus::Unknown).await;
    Routes::new(service)
}

/// Returns a fixed response or never responds; records the requests.
#[derive(Debug, Clone)]
struct Fixed {
    answer: Option<Result<i32, Status>>,
    asked: Arc<Mutex<Vec<String>>>,
}

#[async_trait::async_trait]
impl Health for Fixed {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let agent = request.metadata().get("user-agent").and_then(|agent| agent.to_str().ok());
        self.asked.lock().push(agent.unwrap_or_default().to_owned());
        match self.answer.clone() {
            Some(answer) => Ok(Response::new(HealthCheckResponse { status: answer? })),
            None => std::future::pending().await,
        }
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("no watch"))
    }
}

async fn fixed(answer: Option<Result<i32, Status>>) -> (u16, AbortHandle, Arc<Mutex<Vec<String>>>) {
    let (listener, port) = listener().await;
    let asked = Arc::default();
    let service = HealthServer::new(Fixed { answer, asked: Arc::clone(&asked) });
    (port, serve(listener, Routes::new(service)), asked)
}

#[tokio::test]
async fn the_status_of_the_service_is_the_result() {
    let (listener, port) = listener().await;
    let server = serve(listener, health().await);
    let healthy = answer(Outcome::Success, "service healthy");
    for service in ["", "good"] {
        assert_eq!(probe("127.0.0.1", port, service, PLENTY).await, healthy);
    }
    for (service, text) in [
        ("bad", "service unhealthy (responded with \"NOT_SERVING\")"),
        ("odd", "service unhealthy (responded with \"UNKNOWN\")"),
        ("none", "error: health rpc probe failed: rpc error: code = NotFound desc = service not registered"),
    ] {
        assert_eq!(probe("127.0.0.1", port, service, PLENTY).await, answer(Outcome::Failure, text));
    }
    server.abort();
    let v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.expect("a port");
    let port = v6.local_addr().expect("bound").port();
    let server = serve(v6, health().await);
    assert_eq!(probe("::1", port, "good", PLENTY).await, healthy);
    server.abort();
}

#[tokio::test]
async fn answers_that_are_none() {
    let rpc = "error: health rpc probe failed: rpc error: code =";
    for (given, expected) in [
        (Ok(3), "service unhealthy (responded with \"SERVICE_UNKNOWN\")".to_owned()),
        // A number without a name is not a valid status.
        (Ok(77), "service unhealthy (responded with \"UNKNOWN\")".to_owned()),
        (Err(Status::permission_denied("go away")), format!("{rpc} PermissionDenied desc = go away")),
        (Err(Status::cancelled("")), format!("{rpc} Canceled desc = ")),
        (Err(Status::deadline_exceeded("x")), "timeout: health rpc did not complete within 10s".to_owned()),
    ] {
        let (port, server, asked) = fixed(Some(given)).await;
        assert_eq!(probe("127.0.0.1", port, "s", PLENTY).await, answer(Outcome::Failure, expected));
        assert_eq!(*asked.lock(), [format!("kube-probe/{}", nodewarden_model::version())]);
        server.abort();
    }
    let (listener, port) = listener().await;
    let server = serve(listener, Routes::default());
    let seen = probe("127.0.0.1", port, "", PLENTY).await;
    let text = "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ";
    assert_eq!(seen.outcome, Outcome::Failure);
    assert!(seen.output.starts_with(text), "{}", seen.output);
    server.abort();
}

#[tokio::test]
async fn servers_that_hang() {
    let late = answer(Outcome::Failure, "timeout: health rpc did not complete within 200ms");
    let (port, server, asked) = fixed(None).await;
    assert_eq!(probe("127.0.0.1", port, "", SHORT).await, late);
    assert_eq!(asked.lock().len(), 1, "a failure is not tried again");
    nothing_is_left(port).await;
    server.abort();
    // Accepted only by the kernel.
    let (_listener, port) = listener().await;
    assert_eq!(probe("127.0.0.1", port, "", SHORT).await, late);
}

#[tokio::test]
async fn servers_of_another_kind() {
    for (greeting, expected) in [
        (Some("HTTP/1.1 400 Bad Request\r\n\r\n"), "frame with invalid size"),
        (Some("220 mail\r\n"), "frame with invalid size"),
        (Some("\0\0\0\0\0\0\0\0\0\0\0\0\0"), "unspecific protocol error detected"),
        // Closes the connection without a response.
        (None, "broken pipe"),
    ] {
        let (listener, port) = listener().await;
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut bytes = [0; 1024];
            let _preface = stream.read(&mut bytes).await;
            let Some(greeting) = greeting else { return };
            stream.write_all(greeting.as_bytes()).await.expect("sent");
            while stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
        });
        let seen = probe("127.0.0.1", port, "", PLENTY).await;
        assert_eq!(seen.outcome, Outcome::Failure, "{greeting:?}");
        assert!(seen.output.starts_with("error: health rpc probe failed: rpc error: code = "), "{seen:?}");
        assert!(seen.output.contains(expected), "{seen:?}");
        server.await.expect("a server");
    }
}

/// A refused connection is reported at once if the time is too short for another attempt.
#[tokio::test]
async fn a_refused_connection_fails_at_once() {
    let (gone, port) = listener().await;
    drop(gone);
    let begun = Instant::now();
    let text = format!(
        "error: failed to connect service at \"127.0.0.1:{port}\": dial tcp 127.0.0.1:{port}: connect: connection refused"
    );
    let seen = probe("127.0.0.1", port, "", Duration::from_secs(1)).await;
    assert_eq!(seen, answer(Outcome::Failure, text));
    assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_server_that_comes_up_in_time() {
    let (gone, port) = listener().await;
    drop(gone);
    let begun = Instant::now();
    let late = async {
        tokio::time::sleep(SHORT).await;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("the port again");
        serve(listener, health().await)
    };
    let (seen, server) = tokio::join!(probe("127.0.0.1", port, "", PLENTY), late);
    assert_eq!(seen, answer(Outcome::Success, "service healthy"));
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    server.abort();
}

#[tokio::test]
async fn nothing_stays_behind() {
    let (listener, port) = listener().await;
    let server = serve(listener, health().await);
    for service in ["good", "bad", "none"].iter().cycle().take(30) {
        probe("127.0.0.1", port, service, PLENTY).await;
    }
    nothing_is_left(port).await;
    server.abort();
}
