//! HTTP/1.1, as little of it as probes need, so that every way of answering badly is at hand.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use super::act::ELSEWHERE;
use super::{Act, Notes};

/// A head may have so many bytes.
const HEAD: usize = 16 << 10;

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Closed,
    /// To be reset.
    Reset,
}

/// Serves every connection.
pub async fn serve(listener: TcpListener, notes: Arc<Notes>) {
    loop {
        // Out of files, or gone before it was accepted: the next one may be better.
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let notes = notes.clone();
        tokio::spawn(async move {
            if talk(&mut stream, "http", &notes).await == End::Reset {
                let _reset = stream.set_zero_linger();
            }
        });
    }
}

/// Answers requests until either side has enough.
pub async fn talk<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, listener: &str, notes: &Notes) -> End {
    let mut read = Vec::with_capacity(1024);
    while let Some(head) = head(stream, &mut read).await {
        let Some(request) = Request::of(&head) else { break };
        let act = notes.resolve(Act::of(request.path));
        let act = request.judged(act);
        notes.add(listener, request.path, &told(&act));
        let (head, keep) = match &act {
            Act::Status(status) => (answer(*status, "", &format!("answer {status}\n")), true),
            Act::To(path) => (answer(302, &format!("Location: {path}\r\n"), "moved\n"), true),
            Act::Away => (answer(302, &format!("Location: {ELSEWHERE}\r\n"), "moved away\n"), true),
            Act::Half => ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf".to_owned(), false),
            Act::Flood => ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), false),
            Act::Reset => return End::Reset,
            Act::Exit(code) => std::process::exit(i32::from(*code)),
            Act::Hang => (String::new(), false),
            _ => (answer(404, "", "no such act\n"), true),
        };
        if stream.write_all(head.as_bytes()).await.is_err() || stream.flush().await.is_err() {
            break;
        }
        if act == Act::Flood {
            flood(stream).await;
            break;
        }
        if !keep {
            until_gone(stream).await;
            break;
        }
        if request.closes {
            let _gone = stream.shutdown().await;
            break;
        }
    }
    End::Closed
}

/// What the notes call an answer.
fn told(act: &Act) -> String {
    match act {
        Act::Status(status) => status.to_string(),
        Act::To(_) | Act::Away => "302".to_owned(),
        Act::Hang => "hang".to_owned(),
        Act::Half => "half".to_owned(),
        Act::Reset => "reset".to_owned(),
        Act::Flood => "flood".to_owned(),
        Act::Exit(code) => format!("exit-{code}"),
        _ => "404".to_owned(),
    }
}

fn answer(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Answer\r\n{headers}Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Until the other side goes away.
async fn flood<S: AsyncWrite + Unpin>(stream: &mut S) {
    let chunk = format!("1000\r\n{}\r\n", "f".repeat(0x1000));
    while stream.write_all(chunk.as_bytes()).await.is_ok() {}
}

async fn until_gone<S: AsyncRead + Unpin>(stream: &mut S) {
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
}

/// The next request's head, without the empty line; none when the other side has gone or talks nonsense. `read` is what has
/// come already, and then what follows the head.
async fn head<S: AsyncRead + Unpin>(stream: &mut S, read: &mut Vec<u8>) -> Option<String> {
    const END: &[u8] = b"\r\n\r\n";
    loop {
        if let Some(end) = read.windows(END.len()).position(|window| window == END) {
            let rest = read.split_off(end + END.len());
            let mut head = std::mem::replace(read, rest);
            head.truncate(end);
            return String::from_utf8(head).ok();
        }
        if read.len() > HEAD || stream.read_buf(read).await.ok()? == 0 {
            return None;
        }
    }
}

/// A request's head.
struct Request<'a> {
    path: &'a str,
    headers: Vec<(String, &'a str)>,
    /// The connection is not kept after it.
    closes: bool,
}

impl<'a> Request<'a> {
    fn of(head: &'a str) -> Option<Self> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (_method, path, version) = (words.next()?, words.next()?, words.next()?);
        let headers: Vec<_> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
            .collect();
        let said = headers.iter().find(|(name, _)| name == "connection").map(|(_, value)| *value);
        let closes = version == "HTTP/1.0" || said.is_some_and(|said| said.eq_ignore_ascii_case("close"));
        Some(Self { path, headers, closes })
    }

    /// What depends on its headers.
    fn judged(&self, act: Act) -> Act {
        match act {
            Act::Has { header, value } => {
                let has = self.headers.iter().any(|(name, said)| *name == header && *said == value);
                Act::Status(if has { 200 } else { 400 })
            }
            act => act,
        }
    }
}

#[cfg(test)]
mod tests;
