//! Writes the checkpoint: whoever waits for it writes it, and finds it written if somebody else has; what nobody waits
//! for is written in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, Notify};
use tracing::warn;

use super::checkpoint::{Checkpoint, CheckpointFile};

/// See the module.
pub struct Saver(Arc<Inner>);

struct Inner {
    file: CheckpointFile,
    state: Box<dyn Fn() -> Option<Checkpoint> + Send + Sync>,
    /// Changes so far.
    count: AtomicU64,
    /// Up to which of them it is on disk or could not be written, and why.
    done: Mutex<(u64, Option<Arc<str>>)>,
    unwaited: Notify,
}

impl Saver {
    /// `state` gives what is to be saved, `None` when nothing may be saved yet or there is nobody any more. Must be called inside a tokio runtime.
    pub fn new(file: CheckpointFile, state: impl Fn() -> Option<Checkpoint> + Send + Sync + 'static) -> Self {
        let inner = Arc::new(Inner {
            file,
            state: Box::new(state),
            count: AtomicU64::new(0),
            done: Mutex::new((0, None)),
            unwaited: Notify::new(),
        });
        let weak = Arc::downgrade(&inner);
        tokio::spawn(async move {
            while let Some(inner) = weak.upgrade() {
                let _ = inner.settled().await;
                inner.unwaited.notified().await;
            }
        });
        Self(inner)
    }

    /// Something has changed, and [`Self::settled`] is about to be waited for.
    pub fn changed(&self) {
        self.0.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Something has changed that nobody waits for.
    pub fn save(&self) {
        self.changed();
        self.0.unwaited.notify_one();
    }

    /// Has everything so far on disk when it returns.
    ///
    /// # Errors
    /// Why it could not be written.
    pub async fn settled(&self) -> Result<(), Arc<str>> {
        self.0.settled().await
    }
}

impl Inner {
    async fn settled(&self) -> Result<(), Arc<str>> {
        let wanted = self.count.load(Ordering::Relaxed);
        let mut done = self.done.lock().await;
        if done.0 < wanted {
            // Before the state: what changes from now on is another's.
            let number = self.count.load(Ordering::Relaxed);
            let Some(checkpoint) = (self.state)() else { return Ok(()) };
            let error = self.write(&checkpoint).err();
            if let Some(error) = error.as_ref().filter(|_| done.1.is_none()) {
                warn!("{error}: no pod gets devices until it can be written");
            }
            *done = (number, error);
        }
        done.1.clone().map_or(Ok(()), Err)
    }

    /// Some tens of microseconds into the disk's cache, mostly: less than handing it to another thread takes.
    fn write(&self, checkpoint: &Checkpoint) -> Result<(), Arc<str>> {
        let write = || self.file.save(checkpoint).map_err(|error| error.to_string().into());
        match tokio::runtime::Handle::current().runtime_flavor() {
            // Others of this thread go on elsewhere should the disk take longer.
            tokio::runtime::RuntimeFlavor::MultiThread => tokio::task::block_in_place(write),
            _ => write(),
        }
    }
}
