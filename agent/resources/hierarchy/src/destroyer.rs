//! Removing pod cgroups beside everything else: a pod whose processes take their time to die holds nobody up.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use super::timed::{Operation, timed};
use nodewarden_machine::cgroup::control::Manager;

/// How long one attempt goes on; the next one follows with the next reconcile.
const PATIENCE: Duration = Duration::from_secs(20);
/// Removals at once.
const WORKERS: usize = 4;

/// How a removal ended.
#[derive(Debug)]
pub struct Outcome {
    pub path: String,
    pub took: Duration,
    /// Processes killed, or why the cgroup is still there.
    pub result: Result<usize, String>,
}

/// The workers. They end when this is dropped, each after the removal it is in.
#[derive(Debug)]
pub struct Destroyer {
    orders: Sender<String>,
    removing: BTreeSet<String>,
}

impl Destroyer {
    /// Starts the workers; `done` gets what became of each removal, on their threads.
    ///
    /// # Errors
    /// A thread cannot be had.
    pub fn start(
        manager: &Arc<Manager>,
        done: impl Fn(Outcome) + Clone + Send + 'static,
    ) -> io::Result<Self> {
        let (orders, receiver) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..WORKERS {
            let (manager, receiver, done) = (manager.clone(), receiver.clone(), done.clone());
            thread::Builder::new().name("destroy".into()).spawn(move || work(&manager, &receiver, &done))?;
        }
        Ok(Self { orders, removing: BTreeSet::new() })
    }

    /// Removes a cgroup and everything below; one attempt at a time for each.
    pub fn remove(&mut self, path: &str) {
        // The workers live as long as the sender.
        if self.removing.insert(path.to_owned()) && self.orders.send(path.to_owned()).is_err() {
            self.removing.remove(path);
        }
    }

    /// To be told when an outcome has been dealt with.
    pub fn finished(&mut self, path: &str) {
        self.removing.remove(path);
    }

    /// What is being removed or waits for it.
    pub fn removing(&self) -> &BTreeSet<String> {
        &self.removing
    }
}

fn work(manager: &Manager, orders: &Mutex<Receiver<String>>, done: &dyn Fn(Outcome)) {
    loop {
        // In a statement of its own: the next worker waits for the lock, not for the removal.
        let order = orders.lock().recv();
        let Ok(path) = order else { return };
        let started = Instant::now();
        let result = timed(Operation::Destroy, || manager.destroy(&path, PATIENCE));
        let result = result.map(|destroyed| destroyed.killed).map_err(|e| e.to_string());
        done(Outcome { path, took: started.elapsed(), result });
    }
}
