//! Writes the checkpoint in the background: what stands when the disk is free, however often it has changed meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use tracing::warn;

use super::checkpoint::{Checkpoint, CheckpointFile};

/// See the module.
#[derive(Debug)]
pub struct Saver {
    wanted: watch::Sender<u64>,
    count: AtomicU64,
    /// Up to which number it is on disk or could not be written, and why.
    done: watch::Receiver<(u64, Option<Arc<str>>)>,
}

impl Saver {
    /// `state` gives what is to be saved; `None` ends it. Must be called inside a tokio runtime.
    pub fn new(file: CheckpointFile, state: impl Fn() -> Option<Checkpoint> + Send + 'static) -> Self {
        let (wanted, mut asked) = watch::channel(0);
        let (tell, done) = watch::channel((0, None));
        let file = Arc::new(file);
        tokio::spawn(async move {
            let mut failed = false;
            while asked.changed().await.is_ok() {
                let number = *asked.borrow_and_update();
                let Some(checkpoint) = state() else { return };
                let file = file.clone();
                let written = tokio::task::spawn_blocking(move || file.save(&checkpoint)).await;
                let error = match written {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(error.to_string()),
                    Err(panic) => Some(panic.to_string()),
                };
                if let Some(error) = error.as_ref().filter(|_| !failed) {
                    warn!("{error}: no pod gets devices until it can be written");
                }
                failed = error.is_some();
                tell.send_replace((number, error.map(Arc::from)));
            }
        });
        Self { wanted, count: AtomicU64::new(0), done }
    }

    /// Something has changed.
    pub fn save(&self) {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        self.wanted.send_if_modified(|wanted| {
            let newer = number > *wanted;
            *wanted = number.max(*wanted);
            newer
        });
    }

    /// Waits until everything so far is on disk.
    ///
    /// # Errors
    /// Why it could not be written.
    pub async fn settled(&self) -> Result<(), Arc<str>> {
        let now = self.count.load(Ordering::Relaxed);
        match self.done.clone().wait_for(|(done, _)| *done >= now).await {
            Ok(done) => done.1.clone().map_or(Ok(()), Err),
            // Only when the runtime ends.
            Err(_) => Err("the agent ends".into()),
        }
    }
}
