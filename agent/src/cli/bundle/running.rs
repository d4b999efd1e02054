//! The agent that runs: its process, by the socket that it listens on, its arguments, and the settings that
//! they lead to.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nodewarden_config::Config;

/// How long a request for metrics may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The largest answer that is taken: that of a node with very many cgroups.
const LARGEST: u64 = 64 << 20;

/// The process that listens on `socket`.
///
/// # Errors
/// When none does.
pub fn process(socket: &Path) -> io::Result<i32> {
    let stream = UnixStream::connect(socket)?;
    Ok(getsockopt(&stream, PeerCredentials)?.pid())
}

/// The arguments with which a process was started, and its working directory.
///
/// # Errors
/// When the process is gone.
pub fn arguments(pid: i32) -> io::Result<(Vec<OsString>, PathBuf)> {
    let line = fs::read(format!("/proc/{pid}/cmdline"))?;
    let directory = fs::read_link(format!("/proc/{pid}/cwd"))?;
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    Ok((words.map(|word| OsString::from_vec(word.to_vec())).collect(), directory))
}

/// The names of a process' environment variables, one a line, without their values.
///
/// # Errors
/// When the process is gone.
pub fn variables(pid: i32) -> io::Result<String> {
    let all = fs::read(format!("/proc/{pid}/environ"))?;
    let mut names: Vec<_> = all
        .split(|byte| *byte == 0)
        .filter_map(|variable| variable.split(|byte| *byte == b'=').next())
        .filter(|name| !name.is_empty())
        .map(|name| format!("{}\n", String::from_utf8_lossy(name)))
        .collect();
    names.sort();
    Ok(names.concat())
}

/// Limits, cgroups and state of a process.
pub fn about(pid: i32) -> Vec<(String, String)> {
    let files = ["status", "limits", "cgroup", "oom_score_adj", "sched"];
    let read = |name: &&str| {
        let text = fs::read(format!("/proc/{pid}/{name}")).ok()?;
        Some((format!("agent/{name}"), String::from_utf8_lossy(&text).into_owned()))
    };
    files.iter().filter_map(read).collect()
}

/// The body that the agent's HTTP address answers to `path`, if this machine may ask without credentials.
///
/// # Errors
/// When it can't be reached, or refuses.
pub fn get(config: &Config, path: &str) -> io::Result<String> {
    let mut address = config.http_address;
    if address.port() == 0 {
        return Err(io::Error::other("httpAddress is off"));
    }
    if config.http_allow_remote && !config.http_allow_anonymous {
        return Err(io::Error::other("the agent's HTTP address wants credentials (httpAllowRemote)"));
    }
    if address.ip().is_unspecified() {
        let local =
            if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        address.set_ip(local);
    }
    ask(address, path)
}

fn ask(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // In one piece, so that no server answers half a request.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LARGEST).read_to_end(&mut answer)?;
    body(&String::from_utf8_lossy(&answer))
}

/// The body of a whole answer of HTTP/1.0.
fn body(answer: &str) -> io::Result<String> {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else {
        return Err(io::Error::other("the answer is no HTTP"));
    };
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) == Some("200") {
        Ok(body.to_owned())
    } else {
        Err(io::Error::other(format!("the agent answered {status}")))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn the_process_behind_a_socket_is_found_with_its_arguments() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("socket");
        let _listener = UnixListener::bind(&path).unwrap();
        let pid = process(&path).unwrap();
        assert_eq!(pid, std::process::id().cast_signed());
        let (arguments, directory) = arguments(pid).unwrap();
        assert_eq!(arguments, std::env::args_os().collect::<Vec<_>>());
        assert_eq!(directory, std::env::current_dir().unwrap());
        process(&temp.path().join("absent")).unwrap_err();
    }

    #[test]
    fn variables_have_no_values() {
        let names = variables(std::process::id().cast_signed()).unwrap();
        assert!(names.lines().any(|line| line == "PATH"), "{names}");
        assert!(!names.contains('='));
    }

    #[test]
    fn a_body_is_that_of_a_good_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            stream.write_all(b"HTTP/1.0 200 OK\r\nA: b\r\n\r\nup 1\n").unwrap();
            String::from_utf8_lossy(&request[..read]).into_owned()
        });
        assert_eq!(ask(address, "/metrics").unwrap(), "up 1\n");
        assert!(server.join().unwrap().starts_with("GET /metrics HTTP/1.0\r\n"));
        body("HTTP/1.1 401 Unauthorized\r\n\r\nno").unwrap_err();
        body("nonsense").unwrap_err();
    }
}
