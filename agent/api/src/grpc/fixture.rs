//! A server of the model's fixture node on a real socket.

#![allow(clippy::unwrap_used, reason = "a fixture of tests: what it is made of is valid")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::GrpcError;
use nodewarden_model::fixture::Node;
use nodewarden_storage::journal::{Journal, Limits};

/// A running server; it ends when it is dropped or stopped.
pub struct Running {
    /// The directory of the socket and the journal; removed when this is dropped.
    pub dir: tempfile::TempDir,
    /// The socket of the server, which exists already.
    pub socket: PathBuf,
    /// The journal whose events the server sends; tests may add some.
    pub journal: Journal,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), GrpcError>>,
}

impl Running {
    /// Serves a [`Node`] in a temporary directory.
    pub async fn start() -> Self {
        Self::serving(Node::default()).await
    }

    /// Serves this node in a temporary directory.
    pub async fn serving(node: Node) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("run/nodewarden.sock");
        let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (path, served) = (socket.clone(), journal.clone());
        let task = tokio::spawn(async move {
            super::serve(&path, Arc::new(node), served, super::streams::Sources::default(), async {
                let _ = stopped.await;
            })
            .await
        });
        wait_for(&socket).await;
        Self { dir, socket, journal, stop: Some(stop), task }
    }

    /// Stops the server as a signal would.
    ///
    /// # Errors
    /// The server had failed.
    pub async fn stop(mut self) -> Result<(), GrpcError> {
        drop(self.stop.take());
        self.task.await.unwrap()
    }
}

async fn wait_for(socket: &Path) {
    while !socket.exists() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
