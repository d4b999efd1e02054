//! Removes pod cgroups on threads of its own, so that a pod whose processes die slowly delays nothing else.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::timed::{Operation, timed};
use nodewarden_machine::cgroup::control::Manager;
use nodewarden_tasks::parts::{self, Part};

/// Duration of one attempt; the next one is made by the next reconcile.
const PATIENCE: Duration = Duration::from_secs(20);
/// Number of removals at the same time.
const WORKERS: usize = 4;
/// How long a removal may take, with what systemd needs for it.
const LIMIT: Duration = Duration::from_secs(300);

/// How a removal ended.
#[derive(Debug)]
pub struct Outcome {
    pub path: Arc<str>,
    pub took: Duration,
    /// Processes killed, or why the cgroup is still there.
    pub result: Result<usize, String>,
}

/// The workers. They end when this is dropped, each after its current removal.
#[derive(Debug)]
pub struct Destroyer {
    orders: Sender<Arc<str>>,
    removing: BTreeSet<Arc<str>>,
}

impl Destroyer {
    /// Starts the workers; they call `done` with the outcome of each removal.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        manager: &Arc<Manager>,
        done: impl Fn(Outcome) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..WORKERS {
            let (manager, receiver, done) = (manager.clone(), receiver.clone(), done.clone());
            let part = parts::register("cgroup removal", LIMIT);
            thread::Builder::new().name("destroy".into()).spawn(move || {
                work(&manager, &receiver, &done, &part);
                part.end();
            })?;
        }
        Ok(Self { orders, removing: BTreeSet::new() })
    }

    /// Removes a cgroup and everything below it in the background. Does nothing if that is already under way.
    pub fn remove(&mut self, path: &Arc<str>) {
        // The workers live as long as the sender.
        if self.removing.insert(path.clone()) && self.orders.send(path.clone()).is_err() {
            self.removing.remove(path);
        }
    }

    /// Call this when an outcome has been handled.
    pub fn finished(&mut self, path: &str) {
        self.removing.remove(path);
    }

    /// Paths that are being removed or queued.
    pub fn removing(&self) -> &BTreeSet<Arc<str>> {
        &self.removing
    }
}

fn work(manager: &Manager, orders: &Mutex<Receiver<Arc<str>>>, done: &dyn Fn(Outcome), part: &Part) {
    loop {
        // A separate statement, so that the lock is not held during the removal.
        part.waits();
        let order = orders.lock().recv();
        part.progress();
        let Ok(path) = order else { return };
        let started = Instant::now();
        let result = timed(Operation::Destroy, || manager.destroy(&path, PATIENCE));
        let result = result.map(|destroyed| destroyed.killed).map_err(|e| e.to_string());
        done(Outcome { path, took: started.elapsed(), result });
    }
}
