//! The request of an `httpGet` hook, as the kubelet makes it (pkg/probe/http): HTTP/1.1, no connection kept, redirects
//! followed on the same host.

use std::fmt::Write as _;
use std::io;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use hyper::http::uri::InvalidUri;
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// How often the kubelet's client lets itself be sent elsewhere.
const MOST_REDIRECTS: usize = 10;
/// How much of an answer is read, in bytes (kubelet `maxRespBodyLength`).
const LONGEST_BODY: usize = 10 << 10;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGet {
    /// None: the pod's address.
    pub host: Option<String>,
    pub port: u16,
    /// With its query.
    pub path: String,
    pub headers: Vec<(String, String)>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("connect: {0}")]
    Connect(io::Error),
    #[error("{0}")]
    Exchange(#[from] hyper::Error),
    #[error("header {0:?} is no header")]
    Header(String),
    #[error("not an address: {0}")]
    Uri(#[from] InvalidUri),
    #[error("stopped after {MOST_REDIRECTS} redirects")]
    Redirects,
    #[error("redirect to {0}: only http is spoken here")]
    Scheme(String),
}

impl HttpGet {
    pub(super) fn url(&self, host: &str) -> String {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        format!("http://{host}:{}{}", self.port, path(&self.path))
    }
}

/// A path that can be sent: from the root, without a fragment, other characters as `%` and their bytes.
fn path(text: &str) -> String {
    let text = text.split('#').next().unwrap_or_default();
    let mut out = String::from(if text.starts_with('/') { "" } else { "/" });
    for byte in text.bytes() {
        let _ = match byte {
            b'!' | b'$' | b'%'..=b';' | b'=' | b'?'..=b'Z' | b'[' | b']' | b'_' | b'a'..=b'z' | b'~' => {
                write!(out, "{}", char::from(byte))
            }
            _ => write!(out, "%{byte:02X}"),
        };
    }
    out
}

/// Asks, and takes whatever answer.
pub(super) async fn get(asked: &HttpGet, host: &str) -> Result<(), HttpError> {
    let mut uri: Uri = asked.url(host).parse()?;
    let first = uri.host().map(str::to_owned);
    for _ in 0..=MOST_REDIRECTS {
        let location = exchange(asked, &uri).await?;
        let Some(next) = location.and_then(|location| joined(&uri, &location)) else { return Ok(()) };
        if next.host().map(str::to_owned) != first {
            return Ok(());
        }
        if next.scheme_str() != Some("http") {
            return Err(HttpError::Scheme(next.to_string()));
        }
        uri = next;
    }
    Err(HttpError::Redirects)
}

/// One request; where the answer says to go on.
async fn exchange(asked: &HttpGet, uri: &Uri) -> Result<Option<String>, HttpError> {
    let request = request(asked, uri)?;
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let stream =
        TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await.map_err(HttpError::Connect)?;
    let mut builder = hyper::client::conn::http1::Builder::new();
    builder.title_case_headers(true);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    let driver = AbortOnDrop(tokio::spawn(connection));
    let answer = sender.send_request(request).await?;
    let redirected = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    discard(answer).await;
    drop(driver);
    Ok(location.filter(|_| redirected))
}

/// A hook that is given up takes its connection with it.
struct AbortOnDrop(tokio::task::JoinHandle<Result<(), hyper::Error>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads the answer, so that the server can write it; its end does not matter.
async fn discard(answer: Response<Incoming>) {
    let (mut body, mut read) = (answer.into_body(), 0);
    while let Some(Ok(frame)) = body.frame().await {
        read += frame.data_ref().map_or(0, Bytes::len);
        if read >= LONGEST_BODY {
            return;
        }
    }
}

/// The kubelet's own headers unless the manifest has others; one that it sets to nothing is not sent.
fn request(asked: &HttpGet, uri: &Uri) -> Result<Request<Empty<Bytes>>, HttpError> {
    let mut request = Request::get(uri.path_and_query().map_or("/", |path| path.as_str()))
        .body(Empty::new())
        .map_err(|_| HttpError::Header(uri.to_string()))?;
    let headers = request.headers_mut();
    for (name, value) in &asked.headers {
        let bad = || HttpError::Header(format!("{name}: {value}"));
        let key = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
        headers.append(key, HeaderValue::try_from(value.as_str()).map_err(|_| bad())?);
    }
    let agent = format!("kube-lifecycle/{}", crate::VERSION);
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    for (name, value) in [(USER_AGENT, agent), (ACCEPT, "*/*".to_owned()), (HOST, authority)] {
        match headers.get(&name).map(HeaderValue::is_empty) {
            Some(true) if name != HOST => {
                headers.remove(&name);
            }
            Some(false) => {}
            _ => {
                let value = HeaderValue::try_from(value.as_str()).map_err(|_| HttpError::Header(value))?;
                headers.insert(name, value);
            }
        }
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(request)
}

/// A `Location` seen from where it was given; none for what is no address.
fn joined(base: &Uri, location: &str) -> Option<Uri> {
    let location = location.split('#').next().unwrap_or_default();
    let authority = base.authority()?;
    let text = if location.contains("://") {
        location.to_owned()
    } else if let Some(rest) = location.strip_prefix("//") {
        format!("http://{rest}")
    } else if location.starts_with('/') {
        format!("http://{authority}{location}")
    } else {
        let folder = base.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("http://{authority}{folder}/{location}")
    };
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let url = |host: &str, text: &str| {
            HttpGet { host: None, port: 80, path: text.to_owned(), headers: Vec::new() }.url(host)
        };
        assert_eq!(url("10.0.0.1", "/a?b=c&d=%20"), "http://10.0.0.1:80/a?b=c&d=%20");
        assert_eq!(url("fd00::1", "a b#c"), "http://[fd00::1]:80/a%20b");
        assert_eq!(url("h", ""), "http://h:80/");
        assert_eq!(url("h", "/ä\"<>^`{|}\\"), "http://h:80/%C3%A4%22%3C%3E%5E%60%7B%7C%7D%5C");
    }

    #[test]
    fn redirects() {
        let base: Uri = "http://h:8080/a/b?q".parse().unwrap();
        for (location, expected) in [
            ("/x?y", Some("http://h:8080/x?y")),
            ("c", Some("http://h:8080/a/c")),
            ("//other/x", Some("http://other/x")),
            ("https://h/x#f", Some("https://h/x")),
            ("http://h:1/", Some("http://h:1/")),
            ("http://h h/", None),
        ] {
            assert_eq!(joined(&base, location).map(|uri| uri.to_string()).as_deref(), expected, "{location}");
        }
    }
}
