//! Names kept up to date in the background: a task queries the runtime, look-ups use its results without
//! blocking.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::cache::Cache;
use super::pace::{LEAST, LIST, REGULAR, back_off};
use super::{Client, Listing, RuntimeError, Version};
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

/// The names known to one runtime. The background task ends when this is dropped.
#[derive(Debug)]
pub struct Names {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    endpoint: Endpoint,
    /// Time limit of each call.
    limit: Duration,
    cache: Mutex<Cache>,
    state: Mutex<State>,
    /// What the runtime called itself last.
    runtime_name: Mutex<Option<String>>,
    /// Notified when an unknown name is looked up.
    wanted: Notify,
}

impl Names {
    /// Starts to list what the runtime at `endpoint` has: at once, when an unknown pod or container is looked
    /// up (at most once a second), and every five minutes. Its version is asked for every minute, which shows
    /// that it answers; while it does not, after 1 s doubling to a minute.
    ///
    /// `limit` is the time limit of each call (`runtimeRequestTimeout`). Must be called inside a tokio
    /// runtime, which runs the refreshing.
    pub fn new(endpoint: &Endpoint, limit: Duration) -> Self {
        let shared = Arc::new(Shared {
            endpoint: endpoint.clone(),
            limit,
            cache: Mutex::default(),
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
        &self.shared.endpoint
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn new_client(shared: &Shared) -> Client {
    Client::new(&shared.endpoint).with_request_limit(shared.limit)
}

async fn keep(shared: Arc<Shared>) {
    let mut client = new_client(&shared);
    let mut failures: u32 = 0;
    let mut listed: Option<Instant> = None;
    let mut wanted = true;
    loop {
        let started = Instant::now();
        let list = wanted || listed.is_none_or(|at| started.duration_since(at) >= LIST);
        match refresh(&client, list).await {
            Ok((version, listing)) => {
                failures = 0;
                if let Some(listing) = listing {
                    shared.cache.lock().learn(listing, Instant::now());
                    listed = Some(started);
                }
                shared.set_state(State::Reached(version));
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                // It may have lost what it had.
                listed = None;
                shared.set_state(State::Away(error.cause()));
                // A new client, because a connection that hangs in its handshake would block the next call as
                // well.
                client = new_client(&shared);
            }
        }
        shared.cache.lock().tidy(Instant::now());
        if failures > 0 {
            tokio::time::sleep(back_off(failures)).await;
            wanted = false;
            continue;
        }
        let regular = tokio::time::timeout_at(every(REGULAR).into(), shared.wanted.notified());
        wanted = regular.await.is_ok();
        if wanted {
            tokio::time::sleep(LEAST.saturating_sub(started.elapsed())).await;
        }
    }
}

/// The runtime's version and, if that is asked for, what it has.
async fn refresh(client: &Client, list: bool) -> Result<(Version, Option<Listing>), RuntimeError> {
    let version = client.version().await?;
    Ok((version, if list { Some(client.list().await?) } else { None }))
}

impl Shared {
    /// Sets the state, and logs it if its kind has changed.
    fn set_state(&self, state: State) {
        if let State::Reached(version) = &state {
            *self.runtime_name.lock() = Some(version.name.clone());
        }
        let before = std::mem::replace(&mut *self.state.lock(), state.clone());
        match (&before, &state) {
            (State::Reached(old), State::Reached(new)) if old == new => {}
            (_, State::Reached(version)) => info!("container runtime: {version} at {}", self.endpoint),
            (State::Away(_), State::Away(_)) | (_, State::Asking) => {}
            (_, State::Away(cause)) => {
                warn!(
                    "container runtime at {}: {cause}; pods and containers go without new names",
                    self.endpoint
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn an_absent_runtime_is_a_state_not_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::parse(&dir.path().join("none.sock").to_string_lossy()).unwrap();
        let names = Names::new(&endpoint, Duration::from_secs(120));
        let deadline = Instant::now() + Duration::from_secs(5);
        while names.state() == State::Asking && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(names.state(), State::Away("Version: No such file or directory (os error 2)".into()));
        let identity = Arc::new(super::super::enrich::tests::pod("uid"));
        assert!(Arc::ptr_eq(&names.name(&identity), &identity));
    }
}
