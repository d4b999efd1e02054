//! A thousand connections to the node's port by clients without credentials.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::NEEDS;
use super::fixture::{CERTIFICATES, ClusterFixture, container_id, ensure_no_restart};
use super::manifest::{WAIT, pod};
use crate::e2e::support::{MIB, eventually};
use crate::fixture::{Agent, HttpsServer, parse_samples};
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[Test::new("cluster_flooded_port", flooded).timeout(240).needs(NEEDS)];

/// Connections of each kind. The kinds are opened at the same time.
const OF_EACH: usize = 200;
/// Connections of one client that are kept while none of its requests is authenticated.
const KEPT: usize = 64;
/// Other connections that the agent may open meanwhile: reviews of tokens, the API server's, the runtime's.
const OTHERS: usize = 20;
/// Threads that open the connections of a kind.
const THREADS: usize = 4;
/// More memory than this is not needed for the connections that are kept.
const MEMORY: u64 = 48 * MIB;
/// How long a request of the API server may take meanwhile.
const ANSWER: Duration = Duration::from_secs(2);

/// What a client does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing.
    Silent,
    /// Begins the handshake.
    HalfHandshake,
    /// Begins the head of a request.
    HalfHead,
    /// Sends a token that there is not.
    BadToken,
    /// Sends a head, a token or a body that is too long.
    TooLong,
}

const KINDS: [Kind; 5] = [Kind::Silent, Kind::HalfHandshake, Kind::HalfHead, Kind::BadToken, Kind::TooLong];

/// Most of the connections are cut, the others refused; meanwhile the API server reaches the node, a pod
/// starts, and the agent has few more connections and little more memory. Afterwards nothing of them is left.
fn flooded(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    let agent = fixture.agent()?;
    raise_open_files()?;
    fixture.apply(&pod("stays", fixture.name(), WAIT))?;
    let stays = fixture.wait_ready("stays")?;
    let authority = context.temp.join(CERTIFICATES).join("kubelet.crt");
    let server = HttpsServer { port: fixture.port(), name: fixture.name(), authority: &authority };
    let path = format!("/api/v1/nodes/{}/proxy/healthz", fixture.name());
    let ask = || -> Result<Duration, Failure> {
        let begun = Instant::now();
        ensure_eq!(fixture.kubectl().run(&["get", "--raw", &path])?, "ok", "/healthz");
        Ok(begun.elapsed())
    };
    let usual = ask()?;
    let (before, memory) = (sockets(agent)?, agent.resident_bytes()?.0);

    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    let held = std::thread::scope(|scope| {
        let parts = KINDS.into_iter().flat_map(|kind| (0..THREADS).map(move |part| (kind, part)));
        let groups: Vec<_> =
            parts.map(|(kind, part)| scope.spawn(move || open_part(server, kind, part))).collect();
        while groups.iter().any(|group| !group.is_finished()) {
            slowest = slowest.max(ask()?);
        }
        Ok::<_, Failure>(
            groups.into_iter().filter_map(|group| group.join().ok()).flatten().collect::<Vec<_>>(),
        )
    })?;
    println!("{REPORTED}{} connections in {:.1} s", held.len(), begun.elapsed().as_secs_f64());
    ensure_eq!(held.len(), KINDS.len() * OF_EACH, "connections");
    for (kind, answer) in held.iter().filter_map(|held| Some((held.kind, held.answer?))) {
        let expected: &[u16] = if kind == Kind::BadToken { &[401] } else { &[400, 401, 413, 431] };
        ensure!(expected.contains(&answer), "{kind:?} was answered with {answer}");
    }
    for kind in [Kind::BadToken, Kind::TooLong] {
        let answered = held.iter().filter(|held| held.kind == kind && held.answer.is_some()).count();
        ensure!(answered > 0, "no client of the kind {kind:?} got an answer");
        println!("{REPORTED}{kind:?} answered: {answered} of {OF_EACH}");
    }
    // They are held.
    let made = Instant::now();
    fixture.apply(&pod("made", fixture.name(), WAIT))?;
    fixture.wait_ready("made")?;
    println!("{REPORTED}pod created to ready meanwhile: {:.1} s", made.elapsed().as_secs_f64());
    for _ in 0..10 {
        slowest = slowest.max(ask()?);
    }
    let (grown, more) =
        (agent.resident_bytes()?.0.saturating_sub(memory), sockets(agent)?.saturating_sub(before));
    println!(
        "{REPORTED}/healthz through the API server: {usual:?}, slowest {slowest:?}; {more} more connections, {} KiB more memory",
        grown / 1024
    );
    ensure!(slowest < ANSWER, "/healthz through the API server took {slowest:?} meanwhile, {usual:?} before");
    ensure!(more <= KEPT + OTHERS, "{more} more connections are open");
    ensure!(grown < MEMORY, "the agent has {} MiB more", grown / MIB);
    let cut = cut_connections(agent)?;
    // The clients of three kinds stay until they are cut.
    let silent = (3 * OF_EACH - KEPT) as f64;
    ensure!(cut >= silent, "{cut} connections were cut for newer ones, of {silent}");

    drop(held);
    eventually(context.patiently(20), "the agent keeps connections whose clients have gone", || {
        Ok((sockets(agent)? <= before + OTHERS).then_some(()))
    })?;
    ensure_eq!(fixture.run(&["exec", "stays", "--", "echo", "there"])?, "there\n", "output of exec");
    let after = fixture.wait_ready("stays")?;
    ensure_no_restart(&after)?;
    ensure_eq!(container_id(&after), container_id(&stays), "the container that ran all the time");
    fixture.finish()
}

/// A connection that is held.
struct Held {
    kind: Kind,
    /// The status, if it was answered.
    answer: Option<u16>,
    _stream: Option<TcpStream>,
}

/// Opens a part of the connections of a kind. The server may cut each at any time.
fn open_part(server: HttpsServer<'_>, kind: Kind, part: usize) -> Vec<Held> {
    (part..OF_EACH)
        .step_by(THREADS)
        .map(|number| {
            let (stream, answer) = open(server, kind, number).unwrap_or_default();
            Held { kind, answer, _stream: stream }
        })
        .collect()
}

fn open(server: HttpsServer<'_>, kind: Kind, number: usize) -> io::Result<(Option<TcpStream>, Option<u16>)> {
    if matches!(kind, Kind::Silent | Kind::HalfHandshake) {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port))?;
        if kind == Kind::HalfHandshake {
            // The beginning of a record with a handshake of 512 bytes.
            stream.write_all(&[0x16, 3, 1, 2, 0, 1])?;
        }
        return Ok((Some(stream), None));
    }
    let mut stream = server.connect()?;
    let line = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n";
    if kind == Kind::HalfHead {
        stream.write_all(line.as_bytes())?;
        stream.flush()?;
        return Ok((Some(stream.sock), None));
    }
    let rest = match (kind, number % 3) {
        (Kind::BadToken, _) => format!("Authorization: Bearer flood-{number}\r\n\r\n"),
        (_, 0) => format!("X-Long: {}\r\n\r\n", "x".repeat(200 << 10)),
        (_, 1) => format!("Authorization: Bearer {}\r\n\r\n", "x".repeat(40 << 10)),
        _ => "Content-Length: 99999999999\r\n\r\n".to_owned(),
    };
    // What was answered before everything was taken is an answer too.
    let _cut = stream.write_all(format!("{line}{rest}").as_bytes());
    let mut begin = [0; 12];
    stream.read_exact(&mut begin)?;
    let status = std::str::from_utf8(&begin).ok().and_then(|text| text.split(' ').nth(1)?.parse().ok());
    Ok((Some(stream.sock), status))
}

/// This process holds more connections than it may have by default.
fn raise_open_files() -> Result<(), Failure> {
    let failed = |error: nix::Error| Failure::file("RLIMIT_NOFILE")(error.into());
    let (now, most) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed)?;
    setrlimit(Resource::RLIMIT_NOFILE, now.max(most.min(4096)), most).map_err(failed)
}

/// Sockets that the agent has.
fn sockets(agent: &Agent) -> Result<usize, Failure> {
    let path = format!("/proc/{}/fd", agent.pid());
    let files = fs::read_dir(&path).map_err(Failure::file(&path))?.flatten();
    let links = files.filter_map(|file| fs::read_link(file.path()).ok());
    Ok(links.filter(|link| link.to_string_lossy().starts_with("socket:")).count())
}

/// Connections that were cut for newer ones.
fn cut_connections(agent: &Agent) -> Result<f64, Failure> {
    let text = agent.get("/metrics")?.text();
    let all = parse_samples(&text).into_iter();
    Ok(all.filter(|own| own.name == "nodewarden_http_connections_refused_total").map(|own| own.value).sum())
}
