//! One connection to a plugin, and calls that do not last for ever.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint as Transport, Uri};
use tonic::{Response, Status};

use super::{PluginError, Whom};
use nodewarden_model::backoff::Backoff;

/// How long a plugin that has registered may take until its socket is there: the kubelet's `dial`.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Between two looks for it, at first and at most.
const PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Connects, for as long as `limit` and at most 10 s: a plugin may register before it serves.
///
/// The connection is never made anew: after a plugin's end somebody else may listen at its path.
///
/// # Errors
/// Nobody listens there, or it is no socket.
pub async fn connect(plugin: &Whom, limit: Duration) -> Result<Channel, PluginError> {
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
    // A link may lead anywhere.
    if !std::fs::symlink_metadata(socket)?.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a socket"));
    }
    UnixStream::connect(socket).await
}

/// Whether it may be otherwise soon: not there yet, bound and not listening yet, or too many wait to be accepted.
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
    // The name is only the :authority of the requests.
    Transport::from_static("http://localhost").connect_with_connector_lazy(connector)
}

/// The answer to a call, within `limit`.
///
/// # Errors
/// Name the plugin, the call and the cause.
pub async fn answer<T>(
    plugin: &Whom,
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

    fn whom(socket: &Path) -> Whom {
        Whom { resource: "a.com/b".into(), socket: socket.to_owned() }
    }

    #[tokio::test]
    async fn what_is_not_there_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let late = socket.clone();
        let served = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            UnixListener::bind(late).unwrap()
        });
        assert!(connect(&whom(&socket), Duration::from_secs(10)).await.is_ok());
        drop(served.await.unwrap());
    }

    #[tokio::test]
    async fn but_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let plugin = whom(&dir.path().join("s"));
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
    async fn a_link_is_no_socket() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        let _listener = UnixListener::bind(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let error = connect(&whom(&link), Duration::from_secs(10)).await.unwrap_err().to_string();
        assert!(error.contains("it is not a socket"), "{error}");
    }
}
