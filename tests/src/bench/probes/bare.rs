//! The connections and requests of probes, made by a plain loop: the least that they cost on this machine.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};

use crate::e2e::pods::listed::ListedPod;
use crate::ensure;
use crate::fixture::Agent;
use crate::harness::Failure;

/// How many requests and connections are made one after the other, and how often.
const TOGETHER: usize = 10;
const EVERY: Duration = Duration::from_millis(100);
/// What a probe sends.
const REQUEST: &[u8] =
    b"GET /ok HTTP/1.1\r\nHost: pod\r\nUser-Agent: kube-probe/1\r\nAccept: */*\r\nConnection: close\r\n\r\n";

/// The two servers of a pod.
#[derive(Debug, Clone, Copy)]
pub struct Servers {
    http: SocketAddr,
    tcp: SocketAddr,
}

/// Where the servers with these ports of these pods are reached.
///
/// # Errors
/// A pod is not there or has no address.
pub fn servers(
    agent: &Agent,
    ports: &[(String, [u16; 2])],
    own_network: bool,
) -> Result<Vec<Servers>, Failure> {
    let pods = ListedPod::list(&agent.get("/pods")?.text())?;
    let find = |(name, [http, tcp]): &(String, [u16; 2])| {
        let pod = pods.iter().find(|pod| pod.name() == name);
        let address = match own_network {
            true => pod.and_then(|pod| pod.text("/status/podIP").parse().ok()),
            false => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        };
        let address = address.ok_or_else(|| Failure::Unexpected(format!("pod {name} has no address")))?;
        Ok(Servers { http: (address, *http).into(), tcp: (address, *tcp).into() })
    };
    ports.iter().map(find).collect()
}

/// Makes requests and connections until `end`. Returns the CPU time of one request and one connection.
///
/// # Errors
/// A server does not answer.
pub fn pair(servers: &[Servers], end: Instant) -> Result<Duration, Failure> {
    ensure!(!servers.is_empty(), "there is no server");
    let failed = |error| Failure::Unexpected(format!("a bare request: {error}"));
    let (before, mut pairs) = (own_cpu_time()?, 0);
    while Instant::now() < end {
        for server in servers.iter().cycle().skip(pairs % servers.len()).take(TOGETHER) {
            request(server.http).map_err(failed)?;
            connect(server.tcp).map_err(failed)?;
            pairs += 1;
        }
        thread::sleep(EVERY);
    }
    Ok((own_cpu_time()? - before) / pairs.max(1) as u32)
}

/// Like those of probes, it is closed by a reset.
fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    setsockopt(&stream, sockopt::Linger, &libc::linger { l_onoff: 1, l_linger: 0 })?;
    Ok(stream)
}

fn request(address: SocketAddr) -> std::io::Result<()> {
    let (mut stream, mut answer) = (connect(address)?, [0; 8192]);
    stream.write_all(REQUEST)?;
    match stream.read(&mut answer)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn own_cpu_time() -> Result<Duration, Failure> {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map(Duration::from).map_err(|errno| Failure::Unexpected(format!("clock_gettime: {errno}")))
}
