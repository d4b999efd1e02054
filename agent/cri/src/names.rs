//! Names kept up to date in the background: a task queries the runtime, look-ups use its results without
//! blocking.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::cache::Cache;
use super::pace::{self, Ask, LEAST, REGULAR, back_off};
use super::{Listing, RuntimeError, SharedList, Version};
use nodewarden_config::Endpoint;
use nodewarden_model::Identity;
use nodewarden_tasks::parts;
use nodewarden_tasks::pause::every;

/// How long the task may work without giving its thread back.
const PART_LIMIT: Duration = Duration::from_secs(60);

/// State of the connection to the runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The first response is pending.
    Asking,
    /// The last refresh succeeded; the runtime has this version.
    Reached(Version),
    /// The last refresh failed, with its cause.
    Away(String),
}

/// An identity with all the names that the runtime can know, see [`Names::name_again`].
#[derive(Debug, Clone)]
pub struct Named {
    identity: Arc<Identity>,
    generation: u64,
}

/// The names known to one runtime. The background task ends when this is dropped.
#[derive(Debug)]
pub struct Names {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    list: SharedList,
    cache: Mutex<Cache>,
    /// [`Cache::generation`].
    generation: AtomicU64,
    state: Mutex<State>,
    /// What the runtime called itself last.
    runtime_name: Mutex<Option<String>>,
    /// Notified when an unknown name is looked up.
    wanted: Notify,
}

impl Names {
    /// Starts to list what the runtime at `endpoint` has: at once, when an unknown pod or container is looked
    /// up (at most once a second), and every five minutes. Its version is asked for each time too, and every
    /// minute if the runtime has answered no other part meanwhile, which shows that it answers; while it does
    /// not, after 1 s doubling to a minute.
    ///
    /// `limit` is the time limit of each call (`runtimeRequestTimeout`). Must be called inside a tokio
    /// runtime, which runs the refreshing.
    pub fn new(endpoint: &Endpoint, limit: Duration) -> Self {
        let shared = Arc::new(Shared {
            list: SharedList::new(endpoint, limit),
            cache: Mutex::default(),
            generation: AtomicU64::default(),
            state: Mutex::new(State::Asking),
            runtime_name: Mutex::default(),
            wanted: Notify::new(),
        });
        let task = tokio::spawn(parts::register("names", PART_LIMIT).task(keep(shared.clone())));
        Self { shared, task }
    }

    /// The identity with the names known now; the same `Arc` if there are none. Never waits for the runtime;
    /// may be called from any thread.
    pub fn name(&self, identity: &Arc<Identity>) -> Arc<Identity> {
        let (named, ask) = self.shared.cache.lock().name(identity, Instant::now());
        if ask {
            self.shared.wanted.notify_one();
        }
        named
    }

    /// As [`Self::name`]; takes less time if `last` is what this returned for the same identity before. There
    /// are thousands of cgroups, and their names seldom change.
    pub fn name_again(&self, identity: &Arc<Identity>, last: &mut Option<Named>) -> Arc<Identity> {
        // Before the look-up: names that come meanwhile are looked up next time.
        let generation = self.shared.generation.load(Ordering::Acquire);
        if let Some(last) = last.as_ref().filter(|last| last.generation == generation) {
            return last.identity.clone();
        }
        let named = self.name(identity);
        // One that lacks a name is looked up each time, which makes the runtime be asked for it.
        *last = (!named.lacks_names()).then(|| Named { identity: named.clone(), generation });
        named
    }

    /// Whether the runtime responds.
    pub fn state(&self) -> State {
        self.shared.state.lock().clone()
    }

    /// The name that the runtime gives itself, as in its last answer; `None` until it has answered once.
    pub fn runtime_name(&self) -> Option<String> {
        self.shared.runtime_name.lock().clone()
    }

    /// The runtime's address.
    pub fn endpoint(&self) -> &Endpoint {
        self.shared.list.endpoint()
    }

    /// The lists that other parts may share with this one.
    pub fn shared_list(&self) -> &SharedList {
        &self.shared.list
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Why the runtime is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A minute is over.
    Minute,
    /// An unknown name is looked up.
    Wanted,
    /// It did not answer this or another part.
    Failed,
}

async fn keep(shared: Arc<Shared>) {
    let mut asking = Asking { shared: shared.clone(), failures: 0, listed: None };
    let mut cause = Cause::Wanted;
    loop {
        let started = Instant::now();
        asking.ask(cause).await;
        shared.cache.lock().tidy(Instant::now());
        if asking.failures > 0 {
            tokio::time::sleep(back_off(asking.failures)).await;
            cause = Cause::Failed;
            continue;
        }
        cause = tokio::select! {
            () = shared.wanted.notified() => Cause::Wanted,
            () = shared.list.failed() => Cause::Failed,
            () = tokio::time::sleep_until(every(REGULAR).into()) => Cause::Minute,
        };
        if cause != Cause::Minute {
            tokio::time::sleep(LEAST.saturating_sub(started.elapsed())).await;
        }
    }
}

/// What was asked, and how that ended.
struct Asking {
    shared: Arc<Shared>,
    /// In a row.
    failures: u32,
    /// When the last list was asked for; `None` if the runtime may have lost what it had since.
    listed: Option<Instant>,
}

impl Asking {
    async fn ask(&mut self, cause: Cause) {
        let (now, list) = (Instant::now(), &self.shared.list);
        let since = |at: Instant| now.saturating_duration_since(at);
        let ask = match cause {
            Cause::Wanted => Ask::List,
            Cause::Minute => pace::regularly(self.listed.map(since), list.answered().map(since)),
            Cause::Failed => pace::regularly(self.listed.map(since), None),
        };
        match refresh(list, ask, cause).await {
            Ok(None) => {}
            Ok(Some((version, listing))) => {
                self.failures = 0;
                if let Some(listing) = listing {
                    self.shared.learn(&listing);
                    self.listed = Some(now);
                }
                self.shared.set_state(State::Reached(version));
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                // It may have lost what it had.
                self.listed = None;
                self.shared.set_state(State::Away(error.cause()));
                list.renew();
            }
        }
    }
}

/// The runtime's version and, if that is asked for, what it has; `None` if nothing is. A list that is due by
/// the time alone waits for other parts to share it.
async fn refresh(
    list: &SharedList,
    ask: Ask,
    cause: Cause,
) -> Result<Option<(Version, Option<Arc<Listing>>)>, RuntimeError> {
    let client = match ask {
        Ask::Nothing => return Ok(None),
        Ask::Version | Ask::List => list.client(),
    };
    // Others ask at this moment, and not again for a minute: the list is not waited for after the version.
    if (ask, cause) == (Ask::List, Cause::Minute) {
        let (version, listing) = tokio::try_join!(client.version(), list.join())?;
        return Ok(Some((version, Some(listing))));
    }
    let version = client.version().await?;
    let listing = match ask {
        Ask::List => Some(Arc::new(client.list().await?)),
        Ask::Nothing | Ask::Version => None,
    };
    Ok(Some((version, listing)))
}

impl Shared {
    fn learn(&self, listing: &Listing) {
        let mut cache = self.cache.lock();
        cache.learn(listing, Instant::now());
        self.generation.store(cache.generation(), Ordering::Release);
    }

    /// Sets the state, and logs it if its kind has changed.
    fn set_state(&self, state: State) {
        if let State::Reached(version) = &state {
            *self.runtime_name.lock() = Some(version.name.clone());
        }
        let before = std::mem::replace(&mut *self.state.lock(), state.clone());
        match (&before, &state) {
            (State::Reached(old), State::Reached(new)) if old == new => {}
            (_, State::Reached(version)) => info!("container runtime: {version} at {}", self.list.endpoint()),
            (State::Away(_), State::Away(_)) | (_, State::Asking) => {}
            (_, State::Away(cause)) => {
                warn!(
                    "container runtime at {}: {cause}; pods and containers go without new names",
                    self.list.endpoint()
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
