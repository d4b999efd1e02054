//! Connects to a plugin, and limits the time of calls.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use nodewarden_model::backoff::Backoff;
use nodewarden_tasks::blocking;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint as Transport, Uri};
use tonic::{Response, Status};

use super::{PluginAddress, PluginError};

/// How long to wait for the socket of a plugin that has registered: as the kubelet's `dial`.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// The wait between two attempts, at first and at most.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Connects to a plugin; tries for `limit`, at most 10 s, because a plugin may register before it serves.
///
/// The connection is never established again: after the plugin's end another program may listen at its path.
///
/// # Errors
/// No program listens there, or the path is not a socket.
pub async fn connect(plugin: &PluginAddress, limit: Duration) -> Result<Channel, PluginError> {
    let tried = limit.min(CONNECT_LIMIT);
    let end = Instant::now() + tried;
    let mut pause = Backoff::doubling(PAUSE, LONGEST_PAUSE);
    loop {
        match tokio::time::timeout_at(end, dial(&plugin.socket)).await {
            Ok(Ok(stream)) => return Ok(channel(stream)),
            Ok(Err(source)) if !passes(&source) || Instant::now() + pause.wait() >= end => {
                return Err(PluginError::Connect { plugin: plugin.clone(), tried, source });
            }
            Ok(Err(_)) => tokio::time::sleep(pause.advance()).await,
            Err(_) => {
                let source = ErrorKind::TimedOut.into();
                return Err(PluginError::Connect { plugin: plugin.clone(), tried, source });
            }
        }
    }
}

async fn dial(socket: &Path) -> io::Result<UnixStream> {
    // Symbolic links are refused, because they may lead anywhere.
    let path = socket.to_owned();
    let found =
        blocking::DEVICES.run(move || std::fs::symlink_metadata(path)).await.map_err(io::Error::other)??;
    if !found.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a socket"));
    }
    UnixStream::connect(socket).await
}

/// Whether another attempt may succeed: the socket does not exist yet, does not listen yet, or has too many
/// connections waiting.
fn passes(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::WouldBlock)
}

fn channel(stream: UnixStream) -> Channel {
    let mut stream = Some(stream);
    let connector = tower::service_fn(move |_: Uri| {
        let stream = stream.take();
        async move {
            let lost = || io::Error::new(ErrorKind::NotConnected, "the connection to the plugin was lost");
            stream.map(TokioIo::new).ok_or_else(lost)
        }
    });
    // The name is only used as the :authority of requests.
    Transport::from_static("http://localhost").connect_with_connector_lazy(connector)
}

/// Waits for the answer to a call, at most `limit`.
///
/// # Errors
/// The call failed or took too long; the error names the plugin, the call and the cause.
pub async fn answer<T>(
    plugin: &PluginAddress,
    call: &'static str,
    limit: Duration,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, PluginError> {
    match tokio::time::timeout(limit, answer).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(PluginError::Call { plugin: plugin.clone(), call, status: Box::new(status) }),
        Err(_) => Err(PluginError::TimedOut { plugin: plugin.clone(), call, limit }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn address(socket: &Path) -> PluginAddress {
        PluginAddress { resource: "a.com/b".into(), socket: socket.to_owned() }
    }

    #[tokio::test]
    async fn a_missing_socket_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let late = socket.clone();
        let served = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            UnixListener::bind(late).unwrap()
        });
        assert!(connect(&address(&socket), Duration::from_secs(10)).await.is_ok());
        drop(served.await.unwrap());
    }

    #[tokio::test]
    async fn waiting_for_a_socket_ends_at_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let plugin = address(&dir.path().join("s"));
        let limit = Duration::from_millis(100);
        let started = Instant::now();
        let error = connect(&plugin, limit).await.unwrap_err();
        assert!(started.elapsed() < Duration::from_secs(5));
        assert_eq!(
            error.to_string(),
            format!("{plugin}: connect: No such file or directory (os error 2) (tried for 0.1 s)")
        );
        drop(UnixListener::bind(&plugin.socket).unwrap());
        let error = connect(&plugin, limit).await.unwrap_err().to_string();
        assert!(error.contains("Connection refused"), "{error}");
    }

    #[tokio::test]
    async fn a_symbolic_link_to_a_socket_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        let _listener = UnixListener::bind(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let error = connect(&address(&link), Duration::from_secs(10)).await.unwrap_err().to_string();
        assert!(error.contains("it is not a socket"), "{error}");
    }
}
