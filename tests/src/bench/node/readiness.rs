//! How long a change of readiness takes: from a probe's answer to the condition `Ready` at the API server.
//!
//! The probe is an HTTP request to a port of this bench, on the machine's own network. The clock begins right
//! before the bench writes the first answer that is another one, and ends when a watch shows the condition:
//! it contains the node's part and the API server's, and nothing of the probe's period. It is the same for
//! every kind of node.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::pods;
use super::side::Side;
use crate::e2e::cluster::fixture::condition;
use crate::harness::Failure;
use parking_lot::Mutex;

/// Pods whose readiness changes.
const PODS: usize = 4;
/// Pause between changes, so that no work of one remains.
const PAUSE: Duration = Duration::from_millis(400);
const LIMIT: Duration = Duration::from_secs(5);

/// Changes the readiness of each pod `rounds` times. Returns the milliseconds that each change took.
pub fn changes(side: &mut Side<'_>, rounds: usize) -> Result<Vec<f64>, Failure> {
    let server = Server::start().map_err(Failure::file("a port for probes"))?;
    let names: Vec<_> = (0..PODS).map(|number| format!("probed-{number}")).collect();
    names.iter().for_each(|name| server.set(name, true));
    let node = side.fixture().name().to_owned();
    let manifests: Vec<_> = names.iter().map(|name| pods::probed(name, &node, server.port)).collect();
    side.create(&manifests, 60)?;
    let mut took = Vec::new();
    for round in 0..rounds {
        std::thread::sleep(PAUSE);
        let wanted = round % 2 == 1;
        names.iter().for_each(|name| server.set(name, wanted));
        let mut left = names.clone();
        while !left.is_empty() {
            let Some(change) = side.next_change() else {
                return Err(Failure::Unexpected(format!("readiness does not become {wanted}: {left:?}")));
            };
            let status = if wanted { "True" } else { "False" };
            let name = change.object["metadata"]["name"].as_str().unwrap_or_default();
            let Some(at) = left.iter().position(|one| one == name) else { continue };
            // A change of before the new answer is none that was waited for.
            let Some(answered) = server.answered(name) else { continue };
            if condition(&change.object, "Ready") == Some(status) && change.at > answered {
                took.push((change.at - answered).as_secs_f64() * 1e3);
                left.swap_remove(at);
            }
        }
    }
    side.delete(&names, 60)?;
    Ok(took)
}

/// What a name is answered.
#[derive(Debug)]
struct Answer {
    ready: bool,
    /// When it was first answered this.
    since: Option<Instant>,
}

type Answers = Arc<Mutex<BTreeMap<String, Answer>>>;

/// An HTTP server on loopback that answers 200 or 503 by the path.
struct Server {
    port: u16,
    answers: Answers,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let (answers, ends) = (Answers::default(), Arc::new(AtomicBool::new(false)));
        let (shown, stop) = (Arc::clone(&answers), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // A client that ends early asks again.
                let _failed = answer(stream, &shown);
            }
        });
        Ok(Self { port, answers, ends, thread: Some(thread) })
    }

    /// From now on this name is ready or not.
    fn set(&self, name: &str, ready: bool) {
        let mut answers = self.answers.lock();
        answers.insert(name.to_owned(), Answer { ready, since: None });
    }

    /// When this name was first answered what it is now.
    fn answered(&self, name: &str) -> Option<Instant> {
        self.answers.lock().get(name)?.since
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _wakes = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)));
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, answers: &Answers) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_nodelay(true)?;
    let (mut bytes, mut part) = (Vec::new(), [0; 1024]);
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        let read = stream.read(&mut part)?;
        if read == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&part[..read]);
    }
    let text = String::from_utf8_lossy(&bytes);
    let name = text.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
    let ready = {
        let mut answers = answers.lock();
        answers.get_mut(&name).is_some_and(|answer| {
            answer.since.get_or_insert_with(Instant::now);
            answer.ready
        })
    };
    let status = if ready { "200 OK" } else { "503 Service Unavailable" };
    stream
        .write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::get;

    #[test]
    fn the_first_new_answer_is_remembered() {
        let server = Server::start().unwrap();
        let ask = || get(([127, 0, 0, 1], server.port).into(), "/a", LIMIT).unwrap().status;
        assert_eq!((ask(), server.answered("a")), (503, None));
        server.set("a", true);
        assert_eq!(server.answered("a"), None);
        assert_eq!(ask(), 200);
        let first = server.answered("a");
        assert!(first.is_some() && ask() == 200 && server.answered("a") == first);
        server.set("a", false);
        assert_eq!((server.answered("a"), ask()), (None, 503));
    }
}
