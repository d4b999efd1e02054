//! Wake-ups by the kernel when memory may be short.
//!
//! When memory gets short, tasks stall (PSI), cgroups reclaim or run out (`memory.events`, on v1
//! `memory.oom_control` and `memory.pressure_level`), or their use crosses a threshold that was set before
//! (v1 thresholds). Each source is a descriptor that one thread polls. A second thread sets them up, since
//! that takes the kernel some ten milliseconds, and does so again when a cgroup was re-created. A source that
//! is missing on this machine is off, with the reason; the timer works in any case.
//!
//! A wake-up carries no figures: the receiver reads the node.

mod poll;
mod slots;
mod source;
mod tend;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use slots::Slots;
use source::Source;
use tend::Order;

use nodewarden_machine::cgroup::Layout;
use nodewarden_tasks::parts;

/// Wake-ups that may be pending for the reader; more add nothing.
const WAITING: usize = 64;

/// Why the reader was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Tasks stalled for lack of memory: `node`, `kubepods`.
    Pressure { scope: &'static str },
    /// A counter of kubepods or of a cgroup below it rose: `memory.events`, v1 `memory.oom_control`.
    MemoryEvents { file: &'static str },
    /// v1: use has crossed the threshold of [`WakeSources::arm`], in either direction.
    Threshold { scope: &'static str },
    /// v1: reclaim does not find enough.
    V1Pressure,
    /// Another part of the agent: an event of an eBPF program, a changed configuration.
    Agent(&'static str),
}

impl fmt::Display for Woken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pressure { scope } => write!(f, "psi {scope}"),
            Self::MemoryEvents { file } => f.write_str(file),
            Self::Threshold { scope } => write!(f, "memory threshold {scope}"),
            Self::V1Pressure => f.write_str("memory.pressure_level"),
            Self::Agent(what) => f.write_str(what),
        }
    }
}

/// Wakes the eviction engine from other parts of the agent.
#[derive(Debug, Clone)]
pub struct Waker(SyncSender<Woken>);

impl Waker {
    /// Wakes the engine; `what` is the cause, as shown in decisions. Never blocks.
    pub fn wake(&self, what: &'static str) {
        // Full: the engine is about to read anyway. Disconnected: it has ended.
        let _ = self.0.try_send(Woken::Agent(what));
    }
}

/// The channel through which the engine is woken. It is made before the engine, so that what reports to the
/// engine can be started first; [`WakeSources::start`] takes it and discards what was sent until then.
#[derive(Debug)]
pub struct Wakeups {
    waker: Waker,
    received: Receiver<Woken>,
}

impl Default for Wakeups {
    fn default() -> Self {
        let (sender, received) = mpsc::sync_channel(WAITING);
        Self { waker: Waker(sender), received }
    }
}

impl Wakeups {
    /// The sending end, for any number of senders. Sending does nothing while there is no engine.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

/// Polls all sources until it is dropped; then its threads end and every descriptor is closed.
#[derive(Debug)]
pub struct WakeSources {
    slots: Option<Arc<Slots>>,
    waker: Waker,
    orders: Option<Sender<Order>>,
    threads: Vec<JoinHandle<()>>,
}

/// How long opening the sources and moving thresholds may take.
const LIMIT: Duration = Duration::from_secs(120);

impl WakeSources {
    /// Sends the kernel's wake-ups through `wakeups` too and returns its receiving end. `kubepods` is the
    /// path of the pods' cgroup, relative to the mounts; its files are polled from the moment they exist. If
    /// the threads or descriptors cannot be created, that is logged and the kernel does not wake.
    pub fn start(layout: &Layout, kubepods: &str, wakeups: Wakeups) -> (Self, Receiver<Woken>) {
        let Wakeups { waker, received: woken } = wakeups;
        while woken.try_recv().is_ok() {}
        let sender = waker.0.clone();
        let mut sources = Self { slots: None, waker, orders: None, threads: Vec::new() };
        if let Err(error) = sources.watch(source::sources(layout, kubepods), sender) {
            tracing::error!(%error, "the kernel's wake-ups are off, the timer still works");
        }
        (sources, woken)
    }

    fn watch(&mut self, sources: Vec<Source>, sender: SyncSender<Woken>) -> io::Result<()> {
        let slots = Arc::new(Slots::new(sources)?);
        self.slots = Some(slots.clone());
        // Opened here once, so that every source that works is on when this returns.
        slots.renew();
        let (orders, taken) = mpsc::channel();
        self.orders = Some(orders);
        let polled = slots.clone();
        // They end when they are asked to, or because the kernel refuses: the timer works without them.
        let polling = parts::register("eviction wake-ups", LIMIT);
        polling.waits();
        self.threads.push(thread::Builder::new().name("wake".into()).spawn(move || {
            poll::run(&polled, &sender);
            polling.end();
        })?);
        let tend = thread::Builder::new().name("wake-tend".into());
        let part = parts::register("eviction thresholds", LIMIT);
        self.threads.push(tend.spawn(move || {
            tend::run(&slots, &taken, &part);
            part.end();
        })?);
        Ok(())
    }

    /// Sets the thresholds that wake when they are crossed (v1 only), of the `node` and of kubepods: bytes of
    /// memory in use, less inactive file pages, as in `memory.available`. Returns at once; a move by a few
    /// MiB is ignored. Reclaim of inactive file pages hides growth from the kernel, so call this regularly.
    pub fn arm(&mut self, node: Option<u64>, pods: Option<u64>) {
        if let Some(orders) = &self.orders {
            // Cannot fail: the thread ends after the sender is dropped.
            let _ = orders.send(Order { node, pods });
        }
    }

    /// Whether every source works that this machine can have: none has to be opened.
    pub fn all_work(&self) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.all_work())
    }

    /// Each source, and whether it works here: `psi node: on`, `psi kubepods: off (…)`.
    pub fn watching(&self) -> Vec<String> {
        self.slots.as_ref().map(|slots| slots.describe()).unwrap_or_default()
    }

    /// Handle for other parts of the agent.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

impl Drop for WakeSources {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(slots) = &self.slots {
            slots.stop();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
