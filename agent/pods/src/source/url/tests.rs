//! Against a server of the test.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;

/// Answers every request with what was set last, until the test's process ends.
struct Server {
    url: String,
    answer: Arc<Mutex<Vec<u8>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/pods", listener.local_addr().unwrap());
        let server = Self { url, answer: Arc::default(), requests: Arc::default() };
        let (answer, requests) = (server.answer.clone(), server.requests.clone());
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut bytes = [0; 4096];
                let n = stream.read(&mut bytes).unwrap_or(0);
                requests.lock().push(String::from_utf8_lossy(&bytes[..n]).into_owned());
                let _ = stream.write_all(&answer.lock().clone());
            }
        });
        server
    }

    fn answers(&self, status: &str, body: &[u8]) {
        let mut answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        answer.extend_from_slice(body);
        *self.answer.lock() = answer;
    }

    fn source(&self) -> UrlSource {
        let settings = StaticPodUrl {
            url: Some(self.url.clone()),
            headers: BTreeMap::from([("X-Node".to_owned(), vec!["a".to_owned()])]),
            check_frequency: Duration::from_millis(20),
        };
        UrlSource::new(&settings, None).unwrap()
    }
}

fn follow(source: UrlSource) -> (Receiver<Desired>, SourceGuard) {
    let (sender, changes) = channel();
    let guard = Box::new(source).follow(Box::new(move |desired| drop(sender.send(desired)))).unwrap();
    (changes, guard)
}

fn next(changes: &Receiver<Desired>) -> Desired {
    changes.recv_timeout(Duration::from_secs(20)).unwrap()
}

const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}]}\n";

#[test]
fn no_url_no_source() {
    assert!(UrlSource::new(&StaticPodUrl::default(), None).is_none());
}

#[test]
fn a_url_is_followed_through_failures() {
    let server = Server::start();
    server.answers("200 OK", POD.as_bytes());
    let mut source = server.source();
    let first = source.snapshot();
    assert!(first.pods.is_empty() && !first.is_complete(), "the server is not waited for");
    let (changes, guard) = follow(source);
    let good = next(&changes);
    assert!(good.is_complete() && good.pods[0].pod.name == "a", "{good:?}");
    assert_eq!(good.pods[0].origin, format!("http:{}", server.url).into());
    server.answers("503 Busy", b"later");
    let busy = next(&changes);
    assert_eq!(busy.pods, good.pods);
    assert_eq!(busy.problems[0].message, format!("{}: 503 Service Unavailable", server.url));
    server.answers("200 OK", b"caf\xe9");
    assert_eq!(next(&changes).problems[0].message, format!("{}: not UTF-8 from byte 3 on", server.url));
    server.answers("200 OK", &vec![b' '; (10 << 20) + 1]);
    let long = next(&changes);
    assert!(long.problems[0].message.contains("more than 10485760 bytes"), "{:?}", long.problems);
    assert_eq!(long.pods, good.pods);
    server.answers("200 OK", POD.as_bytes());
    assert_eq!(next(&changes), good);
    server.answers("200 OK", b"{apiVersion: v1, kind: List, items: []}");
    let none = next(&changes);
    assert!(none.pods.is_empty() && none.is_complete());
    drop(guard);
    assert!(changes.recv().is_err(), "nothing is sent any more");
    let requests = server.requests.lock();
    assert!(requests.iter().all(|request| request.contains("X-Node: a\r\n")), "{requests:?}");
}

#[test]
fn a_server_that_is_not_there_is_reported_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let settings = StaticPodUrl {
        url: Some(url.clone()),
        check_frequency: Duration::from_millis(20),
        ..StaticPodUrl::default()
    };
    let (changes, _guard) = follow(UrlSource::new(&settings, None).unwrap());
    let failed = next(&changes);
    assert!(!failed.is_complete());
    assert!(failed.problems[0].message.contains("connection refused"), "{:?}", failed.problems);
    assert!(changes.recv_timeout(Duration::from_millis(200)).is_err(), "the same again is no change");
}
