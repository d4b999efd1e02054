//! What Ginkgo 1's own command line is for processes that share a suite: a server that gives each process its
//! next test, and passes on what the first one prepared (`ginkgo/internal/remote/server.go`).

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// A request that takes longer is dropped; clients ask again.
const LIMIT: Duration = Duration::from_secs(5);

/// What the processes share.
#[derive(Debug, Default)]
struct Turns {
    next: usize,
    /// What the first process prepared, as it sent it.
    prepared: Option<Vec<u8>>,
}

/// Starts the server, which answers until this process ends. Returns its address.
///
/// # Errors
/// No port can be bound.
pub fn serve() -> std::io::Result<String> {
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        let mut turns = Turns::default();
        for stream in listener.incoming().flatten() {
            // A client that is gone asks again.
            let _gone = answer(stream, &mut turns);
        }
    });
    Ok(format!("http://{address}"))
}

fn answer(stream: TcpStream, turns: &mut Turns) -> std::io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = Vec::new();
    reader.by_ref().take(length).read_to_end(&mut body)?;
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, text) = turns.answer(method, path, body);
    let head = format!("HTTP/1.1 {status} -\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
    let mut stream = reader.into_inner();
    stream.write_all(head.as_bytes())?;
    stream.write_all(&text)
}

impl Turns {
    /// The status and body for a request.
    fn answer(&mut self, method: &str, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
        match (method, path) {
            ("GET", "/has-counter") => (200, Vec::new()),
            ("GET", "/counter") => {
                self.next += 1;
                (200, format!("{{\"index\":{}}}", self.next - 1).into_bytes())
            }
            ("POST", "/BeforeSuiteState") => {
                self.prepared = Some(body);
                (200, Vec::new())
            }
            // State 1 is pending (types.RemoteBeforeSuiteState).
            ("GET", "/BeforeSuiteState") => {
                (200, self.prepared.clone().unwrap_or_else(|| b"{\"Data\":null,\"State\":1}".to_vec()))
            }
            // Nothing has to wait for the others' end: this program ends the node.
            ("GET", "/RemoteAfterSuiteData") => (200, b"{\"CanRun\":true}".to_vec()),
            _ => (404, Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_is_given_once_and_preparation_is_passed_on() {
        let mut turns = Turns::default();
        let get =
            |turns: &mut Turns, path| String::from_utf8(turns.answer("GET", path, Vec::new()).1).unwrap();
        assert_eq!(get(&mut turns, "/BeforeSuiteState"), r#"{"Data":null,"State":1}"#);
        assert_eq!(turns.answer("POST", "/BeforeSuiteState", b"{\"State\":2}".to_vec()).0, 200);
        assert_eq!(get(&mut turns, "/BeforeSuiteState"), r#"{"State":2}"#);
        assert_eq!(get(&mut turns, "/counter"), r#"{"index":0}"#);
        assert_eq!(get(&mut turns, "/counter"), r#"{"index":1}"#);
        assert_eq!(turns.answer("GET", "/else", Vec::new()).0, 404);
    }

    #[test]
    fn it_answers_over_http() {
        let address = serve().unwrap();
        let ask = || {
            let mut stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
            stream.write_all(b"GET /counter HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        assert!(ask().ends_with("\r\n\r\n{\"index\":0}"));
        assert!(ask().ends_with("{\"index\":1}"));
    }
}
