//! Against servers of the test.

mod answers;
mod broken;
mod ends;
mod fetched;
mod redirects;
mod secure;
mod server;

use std::time::Duration;

use tokio::time::timeout;

use super::*;
use server::Server;

/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(20);

fn action(scheme: Scheme, port: u16, path: &str) -> HttpGetAction {
    HttpGetAction { scheme, host: None, port, path: path.to_owned(), headers: Vec::new() }
}

async fn ask(action: &HttpGetAction, host: &str) -> Result<Response, String> {
    let done = timeout(LIMIT, get(action, host, Purpose::Probe)).await.expect("an end in time");
    done.map_err(|error| error.to_string())
}

/// From `server` without TLS.
async fn plain(server: &Server, path: &str) -> Result<Response, String> {
    ask(&action(Scheme::Http, server.port, path), "127.0.0.1").await
}

fn good(body: &str) -> Result<Response, String> {
    Ok(Response { status: 200, body: body.into(), foreign_redirect: None })
}

fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len()).into_bytes()
}
