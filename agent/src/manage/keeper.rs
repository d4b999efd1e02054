//! The thread that keeps the hierarchy.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::destroyer::{Destroyer, Outcome};
use super::keep::{Keep, Places};
use super::sync::Syncer;
use crate::view::HierarchyStatus;

/// How often cgroups are looked at that wait for their pods' volumes (the kubelet's housekeeping).
const HELD: Duration = Duration::from_secs(2);

/// What wakes the keeper.
enum Wake {
    Pods(Keep),
    Look,
    Destroyed(Outcome),
    Stop,
}

/// The running keeper. Dropping it ends the thread and leaves the hierarchy as it is: pods outlive their agent.
#[derive(Debug)]
pub struct Keeper {
    wakes: Sender<Wake>,
    thread: Option<JoinHandle<()>>,
    status: Arc<Mutex<HierarchyStatus>>,
    places: watch::Receiver<Arc<Places>>,
}

/// Hands pods to the keeper from other threads.
#[derive(Debug, Clone)]
pub struct PodSink(Sender<Wake>);

impl PodSink {
    /// From now on these are kept; at once, on the keeper's thread.
    pub fn send(&self, keep: Keep) {
        // Nobody listens any more when the agent ends.
        let _ = self.0.send(Wake::Pods(keep));
    }

    /// Something that cgroups wait for is over: a pod's volumes are gone.
    pub fn look(&self) {
        let _ = self.0.send(Wake::Look);
    }
}

impl Keeper {
    /// Makes the node and QoS levels at once and the pods when they are told; compares everything every `reconcile`.
    ///
    /// # Errors
    /// A thread cannot be had.
    pub fn start(mut syncer: Syncer, reconcile: Duration) -> io::Result<Self> {
        let (wakes, woken) = channel();
        let done = wakes.clone();
        let destroyer = Destroyer::start(syncer.manager(), move |outcome| {
            let _ = done.send(Wake::Destroyed(outcome));
        })?;
        let (status, places) = (syncer.status(), syncer.places());
        // Here and not on the thread: whoever asks for readiness gets a hierarchy that stands.
        let mut destroyer = destroyer;
        syncer.sync(&mut destroyer);
        let thread = thread::Builder::new()
            .name("hierarchy".into())
            .spawn(move || run(&mut syncer, &mut destroyer, &woken, reconcile))?;
        Ok(Self { wakes, thread: Some(thread), status, places })
    }

    pub fn sink(&self) -> PodSink {
        PodSink(self.wakes.clone())
    }

    /// Where the pods' cgroups are, told anew with every change.
    pub fn places(&self) -> watch::Receiver<Arc<Places>> {
        self.places.clone()
    }

    /// The status, as of the last sync.
    pub fn status(&self) -> Arc<Mutex<HierarchyStatus>> {
        self.status.clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.wakes.send(Wake::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(syncer: &mut Syncer, destroyer: &mut Destroyer, woken: &Receiver<Wake>, reconcile: Duration) {
    let mut due = Instant::now() + reconcile;
    loop {
        let mut wake = match woken.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(wake) => Some(wake),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut changed = wake.is_none();
        // Everything that is there is taken before the next sync: a burst of removals is one change.
        while let Some(one) = wake {
            match one {
                Wake::Stop => return,
                Wake::Pods(keep) => {
                    syncer.keep(keep);
                    changed = true;
                }
                Wake::Look => changed = true,
                Wake::Destroyed(outcome) => changed |= syncer.destroyed(&outcome, destroyer),
            }
            wake = woken.try_recv().ok();
        }
        if changed {
            syncer.sync(destroyer);
            due = Instant::now() + if syncer.waits() { reconcile.min(HELD) } else { reconcile };
        }
    }
}
