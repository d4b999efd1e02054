//! Writes the newest value in the background: one write at a time, and of several values only the newest.
//!
//! Decisions never wait for the disk, which may be the resource that is short. A caller that has to wait does
//! so with [`WriteBehind::settled`] (async) or [`WriteBehind::settle`] (blocking).

use std::fmt::{self, Display};
use std::sync::Arc;

use nodewarden_tasks::blocking;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::yield_now;
use tracing::warn;

/// Writes successive values of one thing to disk in the background.
///
/// Values are also written after this was dropped. While there is nothing to write it holds no value, thread
/// or task. Clones share it.
pub struct WriteBehind<T>(Arc<Shared<T>>);

struct Shared<T> {
    write: Box<dyn Fn(T) -> Result<(), String> + Send + Sync>,
    place: Place,
    /// What a failed write means, for the log.
    consequence: &'static str,
    slot: Mutex<Slot<T>>,
    /// After each write, for those that wait in async code and those that block.
    written: (Notify, Condvar),
}

/// Where the background writes happen.
enum Place {
    /// In a thread of this name, which ends when there is nothing more to write.
    Thread(&'static str),
    /// In the blocking threads of this runtime.
    Blocking(Handle),
}

struct Slot<T> {
    /// The value to be written next. Boxed because there is almost never one.
    newest: Option<Box<T>>,
    /// Number of values given so far.
    given: u64,
    /// How many of these are on disk or could not be written; a value that was replaced by a newer one counts
    /// together with that.
    done: u64,
    /// Whether a background writer was started and has not begun.
    queued: bool,
    /// Whether a writer is at work; it looks for a newer value afterwards.
    writing: bool,
    /// Why the last write failed; `None` if it succeeded.
    error: Option<Arc<str>>,
}

impl<T: Send + 'static> WriteBehind<T> {
    /// `write` runs in a thread called `name` (at most 15 bytes), which is started when there is something to
    /// write.
    ///
    /// `consequence` says what a failed write means; it is logged with the first of several consecutive
    /// failures.
    pub fn on_thread<E: Display>(
        name: &'static str,
        consequence: &'static str,
        write: impl Fn(T) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Place::Thread(name), consequence, write)
    }

    /// `write` runs in the blocking threads of the current tokio runtime; otherwise like [`Self::on_thread`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn on_blocking_thread<E: Display>(
        consequence: &'static str,
        write: impl Fn(T) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self::new(Place::Blocking(Handle::current()), consequence, write)
    }

    fn new<E: Display>(
        place: Place,
        consequence: &'static str,
        write: impl Fn(T) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        let write = Box::new(move |value| write(value).map_err(|error| error.to_string()));
        let slot = Slot { newest: None, given: 0, done: 0, queued: false, writing: false, error: None };
        let written = (Notify::new(), Condvar::new());
        Self(Arc::new(Shared { write, place, consequence, slot: Mutex::new(slot), written }))
    }

    /// Writes `value` in the background, unless a newer value is given before that.
    pub fn save(&self, value: T) {
        let is_queued = self.0.put(value).queue();
        if is_queued {
            self.0.start();
        }
    }

    /// Like [`Self::save`], for a caller that calls [`Self::settled`] next, which then writes the value.
    pub fn save_when_settled(&self, value: T) {
        drop(self.0.put(value));
    }

    /// Waits until every value given before this call is on disk or could not be written. Values that no
    /// background writer has taken are written for this call, on a blocking thread: the caller's own limits
    /// of time hold, however long the disk takes.
    ///
    /// # Errors
    /// When the last write failed, with the reason.
    pub async fn settled(&self) -> Result<(), Arc<str>> {
        let given = self.0.slot.lock().given;
        loop {
            let written = self.0.written.0.notified();
            tokio::pin!(written);
            // Before the look at the slot; otherwise a notification between the look and the wait would be
            // missed.
            written.as_mut().enable();
            match self.0.look(given) {
                Look::Done(result) => return result,
                Look::Write(turn) => {
                    // Not awaited: the turn goes on if the caller stops waiting.
                    blocking::STATE_FILES.start(&Handle::current(), move || turn.run());
                    // A runtime that ends drops the turn at once, and this task here.
                    yield_now().await;
                }
                Look::Wait => written.await,
            }
        }
    }

    /// [`Self::settled`] for threads outside a tokio runtime.
    ///
    /// # Errors
    /// When the last write failed, with the reason.
    pub fn settle(&self) -> Result<(), Arc<str>> {
        let given = self.0.slot.lock().given;
        loop {
            match self.0.look(given) {
                Look::Done(result) => return result,
                Look::Write(turn) => turn.run(),
                Look::Wait => self.0.wait(given),
            }
        }
    }
}

/// What a waiting caller does next.
enum Look<T: Send + 'static> {
    Done(Result<(), Arc<str>>),
    Write(Turn<T>),
    Wait,
}

impl<T> Slot<T> {
    /// Whether the caller has to start a background writer.
    fn queue(&mut self) -> bool {
        !self.writing && !std::mem::replace(&mut self.queued, true)
    }
}

impl<T: Send + 'static> Shared<T> {
    fn put(&self, value: T) -> MutexGuard<'_, Slot<T>> {
        let mut slot = self.slot.lock();
        slot.given += 1;
        slot.newest = Some(Box::new(value));
        slot
    }

    /// Starts a background writer.
    fn start(self: &Arc<Self>) {
        let queued = Queued(self.clone());
        match &self.place {
            Place::Blocking(runtime) => blocking::STATE_FILES.start(runtime, move || queued.run()),
            Place::Thread(name) => {
                let thread = std::thread::Builder::new().name((*name).to_owned());
                if let Err(error) = thread.spawn(move || queued.run()) {
                    // The next value tries again.
                    warn!("{name}: no thread to write it: {error}: {}", self.consequence);
                }
            }
        }
    }

    fn look(self: &Arc<Self>, given: u64) -> Look<T> {
        let mut slot = self.slot.lock();
        if slot.done >= given {
            return Look::Done(slot.error.clone().map_or(Ok(()), Err));
        }
        // A writer that waits for a thread is left to do its write, which may be long.
        if slot.writing || slot.queued {
            return Look::Wait;
        }
        Look::Write(Turn::new(self, &mut slot))
    }

    /// Blocks until the slot is worth another look.
    fn wait(&self, given: u64) {
        let mut slot = self.slot.lock();
        while slot.done < given && (slot.writing || slot.queued) {
            self.written.1.wait(&mut slot);
        }
    }

    /// The next value and its number; `None` if there is none, which ends the writer.
    fn take(&self) -> Option<(u64, Box<T>)> {
        let mut slot = self.slot.lock();
        let newest = slot.newest.take();
        slot.writing = newest.is_some();
        newest.map(|value| (slot.given, value))
    }

    fn done(&self, number: u64, error: Option<Arc<str>>) {
        let mut slot = self.slot.lock();
        slot.done = number;
        let before = std::mem::replace(&mut slot.error, error.clone());
        drop(slot);
        if let Some(error) = error.filter(|_| before.is_none()) {
            warn!("{error}: {}", self.consequence);
        }
        self.wake();
    }

    fn wake(&self) {
        self.written.0.notify_waiters();
        self.written.1.notify_all();
    }
}

/// A background writer that was started. It may be dropped without having run, as at the end of a runtime.
struct Queued<T: Send + 'static>(Arc<Shared<T>>);

impl<T: Send + 'static> Queued<T> {
    fn run(self) {
        let mut slot = self.0.slot.lock();
        let turn = (!slot.writing).then(|| Turn::new(&self.0, &mut slot));
        drop(slot);
        drop(self);
        if let Some(turn) = turn {
            turn.run();
        }
    }
}

impl<T: Send + 'static> Drop for Queued<T> {
    fn drop(&mut self) {
        self.0.slot.lock().queued = false;
        self.0.wake();
    }
}

/// The right to write: at most one exists per [`WriteBehind`].
struct Turn<T: Send + 'static> {
    shared: Arc<Shared<T>>,
    /// Whether it ended because there was nothing newer, and not by a panic.
    over: bool,
}

impl<T: Send + 'static> Turn<T> {
    fn new(shared: &Arc<Shared<T>>, slot: &mut Slot<T>) -> Self {
        slot.writing = true;
        Self { shared: shared.clone(), over: false }
    }

    /// Writes until there is nothing newer than what is on disk.
    fn run(mut self) {
        while let Some((number, value)) = self.shared.take() {
            let error = (self.shared.write)(*value).err().map(Arc::from);
            self.shared.done(number, error);
        }
        self.over = true;
    }
}

impl<T: Send + 'static> Drop for Turn<T> {
    /// Cleans up after a panic in a write: its value is lost, and callers no longer wait for it.
    fn drop(&mut self) {
        if !self.over {
            let mut slot = self.shared.slot.lock();
            slot.writing = false;
            if slot.newest.is_none() {
                slot.done = slot.given;
            }
            drop(slot);
            self.shared.wake();
        }
    }
}

impl<T> Clone for WriteBehind<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for WriteBehind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = self.0.slot.lock();
        f.debug_struct("WriteBehind")
            .field("given", &slot.given)
            .field("done", &slot.done)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
