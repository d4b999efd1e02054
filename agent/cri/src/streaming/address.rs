//! Address of the runtime's streaming server.

use hyper::Uri;
use tokio::net::TcpStream;

use super::ExecError;

/// The parsed URL from CRI's Exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Host and port: `127.0.0.1:40123`.
    pub server: String,
    /// The path: `/exec/<token>`.
    pub path: String,
}

impl Address {
    /// Parses `http://<host>:<port>/…`; servers with TLS are not supported.
    ///
    /// # Errors
    /// The URL is not of that form.
    pub fn parse(url: &str) -> Result<Self, ExecError> {
        let unknown = || ExecError::Address { url: url.to_owned() };
        let uri: Uri = url.parse().map_err(|_| unknown())?;
        if uri.scheme_str() != Some("http") {
            return Err(unknown());
        }
        let host = uri.host().ok_or_else(unknown)?;
        let server = format!("{host}:{}", uri.port_u16().unwrap_or(80));
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self { server, path })
    }

    /// Connects to the server.
    ///
    /// # Errors
    /// The connection could not be opened.
    pub async fn connect(&self) -> Result<TcpStream, ExecError> {
        let failed = |source| ExecError::Connect { server: self.server.clone(), source };
        let stream = TcpStream::connect(&self.server).await.map_err(failed)?;
        // Typed input is sent at once.
        stream.set_nodelay(true).map_err(failed)?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (url, expected) in [
            ("http://127.0.0.1:40123/exec/aB-9_x", Some(("127.0.0.1:40123", "/exec/aB-9_x"))),
            ("http://[::1]:10010/exec/a?x=1", Some(("[::1]:10010", "/exec/a?x=1"))),
            ("http://node/exec/a", Some(("node:80", "/exec/a"))),
            ("https://127.0.0.1:40123/exec/a", None),
            ("/exec/a", None),
            ("", None),
        ] {
            let expected =
                expected.map(|(server, path)| Address { server: server.into(), path: path.into() });
            assert_eq!(Address::parse(url).ok(), expected, "{url}");
        }
    }
}
