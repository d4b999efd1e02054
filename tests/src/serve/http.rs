//! A small HTTP/1.1 server that can answer in every wrong way that probes must handle.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;

use super::answer::ELSEWHERE;
use super::{Answer, Notes};

/// The longest head of a request, in bytes.
const HEAD: usize = 16 << 10;

/// How the connection is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Closed,
    /// To be reset.
    Reset,
}

/// Serves every connection.
pub async fn serve(listener: TcpListener, notes: Arc<Notes>) {
    loop {
        // No file descriptors are left, or the client closed the connection already: try the next one.
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let notes = notes.clone();
        tokio::spawn(async move {
            if talk(&mut stream, "http", &notes).await == End::Reset {
                let _reset = stream.set_zero_linger();
            }
        });
    }
}

/// Answers requests until either side closes the connection.
pub async fn talk<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, listener: &str, notes: &Notes) -> End {
    let mut read = Vec::with_capacity(1024);
    while let Some(head) = head(stream, &mut read).await {
        let Some(request) = Request::of(&head) else { break };
        let answer = notes.resolve(Answer::of(request.path));
        let answer = request.resolve_headers(answer);
        notes.add(listener, request.path, &short_name(&answer));
        let (head, keep) = match &answer {
            Answer::Status(status) => (response(*status, "", &format!("answer {status}\n")), true),
            Answer::Redirect(path) => (response(302, &format!("Location: {path}\r\n"), "moved\n"), true),
            Answer::RedirectElsewhere => {
                (response(302, &format!("Location: {ELSEWHERE}\r\n"), "moved away\n"), true)
            }
            Answer::Half => ("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf".to_owned(), false),
            Answer::Flood => ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned(), false),
            Answer::Reset => return End::Reset,
            Answer::Exit(code) => std::process::exit(i32::from(*code)),
            Answer::Hang => (String::new(), false),
            _ => (response(404, "", "no such path\n"), true),
        };
        if stream.write_all(head.as_bytes()).await.is_err() || stream.flush().await.is_err() {
            break;
        }
        if answer == Answer::Flood {
            flood(stream).await;
            break;
        }
        if !keep {
            until_closed(stream).await;
            break;
        }
        if request.closes {
            let _gone = stream.shutdown().await;
            break;
        }
    }
    End::Closed
}

/// The answer as it appears in the notes.
fn short_name(answer: &Answer) -> String {
    match answer {
        Answer::Status(status) => status.to_string(),
        Answer::Redirect(_) | Answer::RedirectElsewhere => "302".to_owned(),
        Answer::Hang => "hang".to_owned(),
        Answer::Half => "half".to_owned(),
        Answer::Reset => "reset".to_owned(),
        Answer::Flood => "flood".to_owned(),
        Answer::Exit(code) => format!("exit-{code}"),
        _ => "404".to_owned(),
    }
}

fn response(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Answer\r\n{headers}Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Sends a body without end until the client closes the connection.
async fn flood<S: AsyncWrite + Unpin>(stream: &mut S) {
    let chunk = format!("1000\r\n{}\r\n", "f".repeat(0x1000));
    while stream.write_all(chunk.as_bytes()).await.is_ok() {}
}

async fn until_closed<S: AsyncRead + Unpin>(stream: &mut S) {
    let mut rest = [0; 1024];
    while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
}

/// Reads the head of the next request, without the empty line. Returns `None` if the client has closed the
/// connection or sends something that is not HTTP. `read` holds the bytes received so far, and on return
/// those that follow the head.
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
    /// The connection is closed after the answer.
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
        let connection = headers.iter().find(|(name, _)| name == "connection").map(|(_, value)| *value);
        let closes =
            version == "HTTP/1.0" || connection.is_some_and(|value| value.eq_ignore_ascii_case("close"));
        Some(Self { path, headers, closes })
    }

    /// Resolves an answer that depends on the request's headers.
    fn resolve_headers(&self, answer: Answer) -> Answer {
        match answer {
            Answer::IfHeader { header, value } => {
                let has = self.headers.iter().any(|(name, actual)| *name == header && *actual == value);
                Answer::Status(if has { 200 } else { 400 })
            }
            answer => answer,
        }
    }
}

#[cfg(test)]
mod tests;
