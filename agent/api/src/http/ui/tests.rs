use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::super::{AllowedHosts, Exposure, bind, serve};
use super::*;
use nodewarden_model::fixture::Node;
use nodewarden_model::{Detail, Snapshot, Status};
use nodewarden_storage::journal::Limits;
use nodewarden_tasks::parts::Parts;

/// A server of a node that has been under pressure.
struct Server {
    address: SocketAddr,
    journal: Journal,
    stop: watch::Sender<bool>,
    _dir: tempfile::TempDir,
    _end: oneshot::Sender<()>,
}

impl Server {
    async fn start(state: Arc<dyn AgentState>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
        let (stop, stopping) = watch::channel(false);
        let sources = PageSources { journal: journal.clone(), stopping };
        let listener = bind("127.0.0.1:0".parse().unwrap(), Exposure::Loopback).await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = super::super::routes(state, Arc::new(AtomicBool::new(true)), Parts::default(), sources);
        let (end, ended) = oneshot::channel::<()>();
        tokio::spawn(serve(listener, routes, AllowedHosts::default(), async {
            let _ = ended.await;
        }));
        Self { address, journal, stop, _dir: dir, _end: end }
    }

    async fn connect(&self, path: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn get(&self, path: &str, headers: &str) -> (String, String) {
        let mut all = String::new();
        self.connect(path, headers).await.read_to_string(&mut all).await.unwrap();
        let (head, body) = all.split_once("\r\n\r\n").unwrap();
        (head.to_lowercase(), body.to_owned())
    }

    /// A page's stream after its head.
    async fn page(&self) -> Messages {
        let mut lines = BufReader::new(self.connect("/ui/stream", "").await);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(lines.read_line(&mut head).await.unwrap() > 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Messages { lines, event: String::new() }
    }
}

struct Messages {
    lines: BufReader<TcpStream>,
    event: String,
}

impl Messages {
    /// The next message: its name and its data; `None` at the end of the stream.
    async fn next(&mut self) -> Option<(String, Value)> {
        let next = async {
            loop {
                let mut line = String::new();
                if self.lines.read_line(&mut line).await.unwrap() == 0 {
                    return None;
                }
                if let Some(name) = line.strip_prefix("event: ") {
                    name.trim().clone_into(&mut self.event);
                } else if let Some(data) = line.strip_prefix("data: ") {
                    return Some((self.event.clone(), serde_json::from_str(data).unwrap()));
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), next).await.expect("in time")
    }

    /// The next message of this name.
    async fn find(&mut self, wanted: &str) -> Value {
        loop {
            let (name, data) = self.next().await.expect("a message");
            if name == wanted {
                return data;
            }
        }
    }
}

fn node() -> Arc<dyn AgentState> {
    Arc::new(Node::under_pressure())
}

#[test]
fn the_files_are_small_and_of_this_origin() {
    let all: usize = files::all().iter().map(|file| file.bytes.len()).sum();
    assert!(all < 300_000, "{all} bytes");
    for file in files::all() {
        let text = std::str::from_utf8(file.bytes).unwrap();
        // The licence and the namespace of SVG are no addresses that are loaded.
        let is_address = |at: usize| !text[at..].starts_with("http://www.w3.org/2000/svg");
        let foreign = text.match_indices("http").find(|(at, _)| {
            (text[*at..].starts_with("http://") || text[*at..].starts_with("https://")) && is_address(*at)
        });
        let vendored = file.name.starts_with("uplot");
        assert!(vendored || foreign.is_none(), "{}: {foreign:?}", file.name);
        for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(vendored || !text.contains(forbidden), "{} has {forbidden}", file.name);
        }
        assert!(!text.contains(" style=\""), "{}: the policy allows no styles of elements", file.name);
    }
}

#[test]
fn every_file_that_is_named_is_there() {
    let index = std::str::from_utf8(files::find("index.html").unwrap().bytes).unwrap();
    let named = index.split(['"', '\'']).filter(|word| word.ends_with(".js") || word.ends_with(".css"));
    assert!(named.clone().count() >= 4);
    for file in files::all().iter().filter(|file| file.name.ends_with(".js")) {
        let text = std::str::from_utf8(file.bytes).unwrap();
        let imports = text.lines().filter_map(|line| line.strip_prefix("import ")?.split("'./").nth(1));
        for name in imports.map(|rest| rest.trim_end_matches("';")).chain(named.clone()) {
            assert!(files::find(name).is_some(), "{} names {name}", file.name);
        }
    }
}

#[tokio::test]
async fn files_have_their_type_a_policy_and_are_sent_once() {
    let server = Server::start(node()).await;
    for (path, content_type) in [
        ("/ui/", "text/html; charset=utf-8"),
        ("/ui/app.js", "text/javascript; charset=utf-8"),
        ("/ui/style.css", "text/css; charset=utf-8"),
        ("/ui/icon.svg", "image/svg+xml"),
    ] {
        let (head, body) = server.get(path, "").await;
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
        assert!(head.contains(&format!("content-type: {content_type}\r\n")), "{path}: {head}");
        assert!(head.contains("content-security-policy: default-src 'none'; script-src 'self';"), "{head}");
        assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        assert!(!body.is_empty());
        let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        let (head, body) = server.get(path, &format!("If-None-Match: {etag}\r\n")).await;
        assert!(head.starts_with("http/1.1 304"), "{path}: {head}");
        assert!(body.is_empty());
    }
    for path in ["/ui/nothing.js", "/ui/..%2fCargo.toml", "/ui/vendor"] {
        assert!(server.get(path, "").await.0.starts_with("http/1.1 404"), "{path}");
    }
}

#[tokio::test]
async fn a_browser_is_led_to_the_page_and_others_see_the_paths() {
    let server = Server::start(node()).await;
    let (head, _) = server.get("/", "Accept: text/html,*/*;q=0.8\r\n").await;
    assert!(head.starts_with("http/1.1 303") && head.contains("location: ui/\r\n"), "{head}");
    let (head, body) = server.get("/", "Accept: */*\r\n").await;
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(body.contains("/ui/\n"), "{body}");
}

#[tokio::test]
async fn a_stream_begins_with_everything_and_goes_on_with_what_changes() {
    let server = Server::start(node()).await;
    let mut page = server.page().await;
    let first = page.find("state").await;
    assert_eq!(first["full"], true);
    assert_eq!((&first["node"]["name"], &first["node"]["cpus"]), (&"node-1".into(), &2.into()));
    let groups = first["groups"]["set"].as_array().unwrap();
    let pod = groups.iter().find(|own| own["kind"] == "pod").unwrap();
    // As gRPC has it of the same fixture.
    assert_eq!((&pod["memoryBytes"], &pod["memoryLimit"]), (&(64 << 20).into(), &(128 << 20).into()));
    assert_eq!(
        (&pod["namespace"], &pod["pod"], &pod["qos"]),
        (&"shop".into(), &"cart-5d9c".into(), &"Burstable".into())
    );
    assert!(groups.iter().all(|own| own["path"] != "/system.slice/old.service"), "a removed one");
    let container = &first["pods"]["set"][0]["containers"][1];
    assert_eq!((&container["name"], &container["restarts"]), (&"web".into(), &2.into()));
    assert_eq!(container["memoryRequest"], 64 << 20);
    assert_eq!(container["cpuRequest"], 0.1);
    assert_eq!(container["probes"].as_array().unwrap().len(), 3);
    assert_eq!(container["oom"]["pid"], 4812);
    assert_eq!(first["pressure"]["signals"][2]["passed"], true);
    assert_eq!(
        first["decisions"]["set"].as_array().unwrap().len(),
        nodewarden_model::fixture::decisions().len()
    );
    assert!(first["decisions"]["set"][0]["candidates"].is_array());
    let second = page.find("state").await;
    assert_eq!((&second["full"], &second["number"]), (&false.into(), &2.into()));
    assert_eq!(second.get("pods"), None, "nothing changed");
    assert!(!second["groups"]["set"].as_array().unwrap().is_empty(), "its CPU time grew");
}

#[tokio::test]
async fn events_are_sent_at_once_and_those_before_too() {
    let server = Server::start(node()).await;
    let note = |reason: &str| Detail::Agent { reason: reason.into(), message: "m".into() };
    server.journal.append(jiff::Timestamp::now(), "", None, note("Before"));
    let mut page = server.page().await;
    let events = page.find("events").await;
    assert_eq!((&events[0]["reason"], &events[0]["text"]), (&"Before".into(), &"Before: m".into()));
    server.journal.append(jiff::Timestamp::now(), "/a", None, Detail::CgroupCreated {});
    server.journal.append(jiff::Timestamp::now(), "", None, note("After"));
    let events = page.find("events").await;
    assert_eq!((events.as_array().unwrap().len(), &events[0]["reason"]), (1, &"After".into()));
}

#[tokio::test]
async fn pages_are_bounded_and_a_closed_one_makes_room() {
    let server = Server::start(node()).await;
    let mut pages = Vec::new();
    for _ in 0..hub::PAGES {
        let mut page = server.page().await;
        page.find("state").await;
        pages.push(page);
    }
    let (head, body) = server.get("/ui/stream", "").await;
    assert!(head.starts_with("http/1.1 503"), "{head}");
    assert!(body.contains("16 pages"), "{body}");
    pages.pop();
    let again = async {
        while !server.get("/ui/app.js", "").await.0.starts_with("http/1.1 200")
            || TcpStream::connect(server.address).await.is_err()
            || !open(&server).await
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), again).await.expect("there is room again");
}

/// Whether one more page may be opened.
async fn open(server: &Server) -> bool {
    let mut lines = BufReader::new(server.connect("/ui/stream", "").await);
    let mut line = String::new();
    lines.read_line(&mut line).await.unwrap();
    line.starts_with("HTTP/1.1 200")
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_while_no_page_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
    let (_stop, stopping) = watch::channel(false);
    let hub = Hub::new(node(), PageSources { journal, stopping });
    assert!(!hub.is_working());
    let page = hub.open().unwrap();
    assert!(hub.is_working());
    drop(page);
    while hub.is_working() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut again = hub.open().unwrap();
    let frame = again.frames.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert_eq!(frame.number(), 1, "from the beginning");
}

#[tokio::test]
async fn a_stream_ends_with_the_agent() {
    let server = Server::start(node()).await;
    let mut page = server.page().await;
    page.find("state").await;
    server.stop.send(true).unwrap();
    while page.next().await.is_some() {}
}

/// A node that cannot be read.
struct Broken;

impl AgentState for Broken {
    fn snapshot(&self) -> Arc<Snapshot> {
        panic!("this node cannot be read")
    }

    fn status(&self) -> Status {
        Node::default().status()
    }
}

#[tokio::test]
async fn a_failed_reading_ends_the_stream() {
    let server = Server::start(Arc::new(Broken)).await;
    let mut page = server.page().await;
    assert_eq!(page.next().await, None);
    let mut page = server.page().await;
    assert_eq!(page.next().await, None, "so does the next one");
}

/// A node with one pod that has secrets where the page must not look.
struct WithSecret;

impl AgentState for WithSecret {
    fn snapshot(&self) -> Arc<Snapshot> {
        Node::default().snapshot()
    }

    fn status(&self) -> Status {
        Node::default().status()
    }

    fn pods(&self) -> Vec<Arc<nodewarden_model::PodView>> {
        let mut view = nodewarden_model::fixture::pod();
        let mut pod = (*view.pod).clone();
        let mut spec = (**pod.spec()).clone();
        let variable = serde_json::json!({"name": "TOKEN", "value": "s3cret"});
        spec.containers[0].env = Some(vec![serde_json::from_value(variable).unwrap()]);
        pod.kept_spec = nodewarden_manifest::Spec::new(spec);
        pod.annotations.insert("password".into(), "s3cret".into());
        view.pod = Arc::new(pod);
        vec![Arc::new(view)]
    }
}

#[tokio::test]
async fn values_of_variables_are_not_shown() {
    let server = Server::start(Arc::new(WithSecret)).await;
    let first = server.page().await.find("state").await;
    assert_eq!(first["pods"]["set"][0]["name"], "cart-5d9c");
    assert!(!first.to_string().contains("s3cret"));
}
