use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::*;
use nodewarden_metrics::{exposition, fixture, parsed};
use nodewarden_model::{Snapshot, Status};
use nodewarden_storage::journal::{Journal, Limits};

/// A server on a loopback port, and its shutdown signal.
struct Server {
    address: SocketAddr,
    ready: Arc<AtomicBool>,
    parts: Parts,
    stop: oneshot::Sender<()>,
    ended: tokio::task::JoinHandle<()>,
    _dir: tempfile::TempDir,
}

impl Server {
    async fn start(state: Arc<dyn AgentState>) -> Self {
        let listener = bind("127.0.0.1:0".parse().unwrap(), Exposure::Loopback).await.unwrap();
        let (address, ready) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let (stop, stopped) = oneshot::channel();
        let shutdown = async { stopped.await.unwrap_or_default() };
        let parts = Parts::default();
        let hosts = AllowedHosts::default();
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
        // The receiver keeps its value without the sender.
        let sources = PageSources { journal, stopping: watch::channel(false).1 };
        let routes = routes(state, ready.clone(), parts.clone(), sources);
        let ended = tokio::spawn(serve(listener, routes, hosts, shutdown));
        Self { address, ready, parts, stop, ended, _dir: dir }
    }

    /// Head and body of the response.
    async fn get(&self, path: &str) -> (String, Vec<u8>) {
        self.ask(&format!("GET {path} HTTP/1.0\r\n\r\n")).await
    }

    /// Head and body of the response to this request.
    async fn ask(&self, request: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        let split = all.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
        (String::from_utf8(all[..split].to_vec()).unwrap().to_lowercase(), all[split + 4..].to_vec())
    }
}

fn still(pods: usize) -> Arc<dyn AgentState> {
    Arc::new(fixture::Still(Arc::new(fixture::snapshot(pods))))
}

#[tokio::test]
async fn every_listed_path_answers_and_is_counted() {
    let server = Server::start(still(60)).await;
    server.ready.store(true, Ordering::Release);
    let (head, listing) = server.get("/").await;
    assert!(head.starts_with("http/1.0 200"), "{head}");
    let listing = String::from_utf8(listing).unwrap();
    let paths: Vec<&str> = listing.lines().filter(|l| l.starts_with('/')).collect();
    assert_eq!(paths.len(), 9);
    for path in &paths {
        let (head, body) = server.get(path).await;
        assert!(head.starts_with("http/1.0 200"), "{path}: {head}");
        if path.starts_with("/metrics") {
            assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
            let families = parsed::families(&body);
            assert!(families.len() > 10 || path.ends_with("/probes"), "{path}");
        }
    }
    // A large response is counted after all of its chunks were sent.
    let own = loop {
        let (_, own) = server.get("/metrics").await;
        let own = String::from_utf8(own).unwrap();
        if own.contains(r#"nodewarden_http_response_bytes{path="/metrics/cadvisor"}"#) {
            break own;
        }
    };
    for want in [
        r#"nodewarden_http_requests_total{path="/metrics/cadvisor",code="200"} "#,
        r#"nodewarden_http_request_duration_seconds_bucket{path="/stats/summary",le="+Inf"} "#,
    ] {
        assert!(own.contains(want), "{want} in {own}");
    }
}

#[tokio::test]
async fn ready_only_after_it_was_set_ready() {
    let server = Server::start(still(1)).await;
    assert!(server.get("/readyz").await.0.starts_with("http/1.0 503"));
    assert!(server.get("/healthz").await.0.starts_with("http/1.0 200"));
    server.ready.store(true, Ordering::Release);
    assert!(server.get("/readyz").await.0.starts_with("http/1.0 200"));
    assert!(server.get("/nothing").await.0.starts_with("http/1.0 404"));
}

#[tokio::test]
async fn a_part_that_stands_still_turns_healthz_to_500() {
    let server = Server::start(still(1)).await;
    let (part, _other) =
        (server.parts.register("eviction", Duration::ZERO), server.parts.register("gc", Duration::MAX));
    part.waits();
    assert_eq!(server.get("/healthz").await.1, b"ok\n");
    part.progress();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let (head, body) = server.get("/healthz").await;
    assert!(head.starts_with("http/1.0 500"), "{head}");
    let body = String::from_utf8(body).unwrap();
    assert!(body.starts_with("[+]ping ok\n[-]eviction failed: no progress for 0 s"), "{body}");
    part.waits();
    let (head, body) = server.get("/healthz?verbose").await;
    assert!(head.starts_with("http/1.0 200"), "{head}");
    assert_eq!(body, b"[+]ping ok\n[+]eviction ok\n[+]gc ok\nhealthz check passed\n");
}

#[tokio::test]
async fn summary_is_json() {
    let server = Server::start(still(2)).await;
    let (head, body) = server.get("/stats/summary").await;
    assert!(head.contains("content-type: application/json"), "{head}");
    let summary: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(summary["pods"].as_array().unwrap().len(), 2);
    assert!(summary["node"].get("fs").is_some());
    let (_, body) = server.get("/stats/summary?only_cpu_and_memory=true").await;
    let summary: Value = serde_json::from_slice(&body).unwrap();
    assert!(summary["node"].get("fs").is_none());
}

#[tokio::test]
async fn the_metrics_of_images_appear_once_they_were_listed() {
    let server = Server::start(still(1)).await;
    let looked = async {
        while !String::from_utf8(server.get("/metrics").await.1).unwrap().contains("\nnodewarden_images{") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looked).await.expect("in time");
}

#[tokio::test]
async fn pods_are_a_pod_list() {
    let server = Server::start(still(1)).await;
    let (head, body) = server.get("/pods").await;
    assert!(head.contains("content-type: application/json"), "{head}");
    let list: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&list["kind"], &list["items"][0]["status"]["phase"]), (&"PodList".into(), &"Running".into()));
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_open_connections() {
    let server = Server::start(still(1)).await;
    let _idle = TcpStream::connect(server.address).await.unwrap();
    server.get("/healthz").await;
    server.stop.send(()).unwrap();
    let ended = tokio::time::timeout(SHUTDOWN_GRACE * 2, server.ended).await;
    ended.expect("in time").unwrap();
}

/// A node that cannot be read.
struct Broken;

impl AgentState for Broken {
    fn snapshot(&self) -> Arc<Snapshot> {
        panic!("this node cannot be read")
    }

    fn status(&self) -> Status {
        fixture::status()
    }
}

#[tokio::test]
async fn a_failed_reading_is_an_error_not_an_empty_answer() {
    let server = Server::start(Arc::new(Broken)).await;
    for path in ["/metrics", "/metrics/cadvisor", "/metrics/resource", "/stats/summary", "/pods"] {
        let (head, _) = server.get(path).await;
        assert!(head.starts_with("http/1.0 500"), "{path}: {head}");
    }
    assert!(server.get("/healthz").await.0.starts_with("http/1.0 200"), "the server continues");
}

fn one_place() -> App {
    App {
        state: Arc::new(Broken),
        ready: Arc::default(),
        parts: Parts::default(),
        scrapes: Arc::new(Semaphore::new(1)),
        readings: Mutex::default(),
        images: images::Images::default(),
    }
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let app = one_place();
    let response = scrape::text(&app, Endpoint::Own, || {
        |out: &mut exposition::Exposition<'_>| {
            (0..1_000).for_each(|_| out.raw(&[b'\n'; 10_000]));
        }
    })
    .await;
    assert_eq!(app.scrapes.available_permits(), 0, "the client does not read, so the writer waits");
    drop(response);
    let free = tokio::time::timeout(Duration::from_secs(5), app.scrapes.acquire()).await;
    drop(free.expect("in time").unwrap());
}

/// The same of a document, which is written while it is read.
#[tokio::test]
async fn a_document_keeps_its_place_until_it_is_read_or_dropped() {
    let app = one_place();
    let document = || cadvisor::Document::new(Arc::new(fixture::snapshot(500)));
    let ask = || scrape::document(&app, Endpoint::Cadvisor, document);
    let response = ask().await;
    assert_eq!(app.scrapes.available_permits(), 0);
    drop(response);
    assert_eq!(app.scrapes.available_permits(), 1);

    let body = axum::body::to_bytes(ask().await.into_body(), usize::MAX).await.unwrap();
    let whole = exposition::to_vec(|out| cadvisor::write(out, &fixture::snapshot(500)));
    assert!(body == whole, "{} bytes, not {}", body.len(), whole.len());
    assert!(whole.len() > 10 * exposition::CHUNK_BYTES, "several chunks, and pauses between them");
    assert_eq!(app.scrapes.available_permits(), 1);
}

/// A response whose writing fails after some chunks must not look complete.
#[tokio::test]
async fn a_failed_response_aborts_the_connection() {
    let app = one_place();
    let response = scrape::text(&app, Endpoint::Own, || {
        |out: &mut exposition::Exposition<'_>| {
            out.raw(&[b'\n'; 200_000]);
            panic!("half way")
        }
    })
    .await;
    assert_eq!(response.status(), StatusCode::OK);
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    assert!(body.is_err());
    assert_eq!(app.scrapes.available_permits(), 1, "the place is free again");
}

/// What a browser sends for a page that has bound its own name to this machine.
#[tokio::test]
async fn a_foreign_host_is_refused_on_every_path() {
    let server = Server::start(still(1)).await;
    let port = server.address.port();
    for path in ["/", "/metrics", "/pods", "/healthz", "/ui/", "/ui/app.js", "/nothing"] {
        let request =
            |host: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let (head, body) = server.ask(&request(&format!("evil.example:{port}"))).await;
        assert!(head.starts_with("http/1.1 421"), "{path}: {head}");
        let said = String::from_utf8(body).unwrap();
        assert!(said.contains("evil.example") && said.contains("httpAllowedHosts"), "{said}");
        for own in ["127.0.0.1", "localhost", "[::1]", "192.0.2.7"] {
            let (head, _) = server.ask(&request(&format!("{own}:{port}"))).await;
            assert!(!head.starts_with("http/1.1 421"), "{path} {own}: {head}");
        }
    }
    let (head, _) =
        server.ask("GET /ui/stream HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").await;
    assert!(head.starts_with("http/1.1 421"), "{head}");
    // The other place of a name.
    let whole = "GET http://evil.example/pods HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert!(server.ask(whole).await.0.starts_with("http/1.1 421"));
    let two = "GET /pods HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    let (head, _) = server.ask(two).await;
    assert!(head.starts_with("http/1.1 4"), "{head}");
}

/// A node with one pod that has a secret in its environment.
struct WithSecret(Arc<dyn AgentState>);

impl AgentState for WithSecret {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot()
    }

    fn status(&self) -> Status {
        fixture::status()
    }

    fn pods(&self) -> Vec<Arc<nodewarden_model::PodView>> {
        let mut view = nodewarden_model::fixture::pod();
        let mut pod = (*view.pod).clone();
        let mut spec = (**pod.spec()).clone();
        let variable = serde_json::json!({"name": "TOKEN", "value": "s3cret"});
        spec.containers[0].env = Some(vec![serde_json::from_value(variable.clone()).unwrap()]);
        let debugger = serde_json::json!({"name": "debugger", "env": [variable]});
        spec.ephemeral_containers = Some(vec![serde_json::from_value(debugger).unwrap()]);
        pod.kept_spec = nodewarden_manifest::Spec::new(spec);
        view.pod = Arc::new(pod);
        vec![Arc::new(view)]
    }

    fn runtime_name(&self) -> Option<String> {
        Some("cri-o".into())
    }
}

#[tokio::test]
async fn pods_are_shown_without_values_of_variables_and_with_the_true_runtime() {
    let server = Server::start(Arc::new(WithSecret(still(1)))).await;
    let (_, body) = server.get("/pods").await;
    let list: Value = serde_json::from_slice(&body).unwrap();
    let pod = &list["items"][0];
    let variable = serde_json::json!({"name": "TOKEN", "value": "<not shown>"});
    for list in ["containers", "ephemeralContainers"] {
        assert_eq!(pod["spec"][list][0]["env"][0], variable, "{list}");
    }
    assert!(!String::from_utf8(body).unwrap().contains("s3cret"));
    assert_eq!(pod["status"]["containerStatuses"][0]["containerID"], "cri-o://c0ffee");
}
