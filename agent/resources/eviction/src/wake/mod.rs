//! Everything by which the kernel says: look now.
//!
//! Where memory gets short, tasks stall (PSI), cgroups reclaim or run out (`memory.events`, on v1 `memory.oom_control` and
//! `memory.pressure_level`), or their use passes a point that was named before (v1 thresholds). Each is a descriptor that
//! one thread polls; a second one sets them up, since that takes the kernel some ten milliseconds, and again when a cgroup
//! was made anew. What is missing here is off, with its reason, and the timer stands behind all of it.
//!
//! A wake-up says nothing but that: whoever gets it reads anew.

mod poll;
mod slots;
mod source;
mod tend;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};

use slots::Slots;
use source::{Kind, Source};
use tend::Order;

use nodewarden_machine::cgroup::Layout;

/// As many wake-ups wait for their reader; what comes beyond tells him nothing new.
const WAITING: usize = 64;

/// What the kernel, or somebody here, had to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Tasks stalled for want of memory: `node`, `kubepods`.
    Pressure { scope: &'static str },
    /// A counter of kubepods or of a cgroup below it rose: `memory.events`, v1 `memory.oom_control`.
    MemoryEvents { file: &'static str },
    /// v1: use has passed the point of [`Waker::arm`], in either direction.
    Threshold { scope: &'static str },
    /// v1: reclaim does not find enough.
    V1Pressure,
    /// Somebody in the agent: a kernel program's event, a configuration that changed.
    Told(&'static str),
}

impl fmt::Display for Woken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pressure { scope } => write!(f, "psi {scope}"),
            Self::MemoryEvents { file } => f.write_str(file),
            Self::Threshold { scope } => write!(f, "memory threshold {scope}"),
            Self::V1Pressure => f.write_str("memory.pressure_level"),
            Self::Told(what) => f.write_str(what),
        }
    }
}

/// Wakes somebody from elsewhere.
#[derive(Debug, Clone)]
pub struct Teller(SyncSender<Woken>);

impl Teller {
    /// Never blocks.
    pub fn tell(&self, what: &'static str) {
        // Full: he is about to look anyway. Gone: nobody is to be woken.
        let _ = self.0.try_send(Woken::Told(what));
    }
}

/// The channel through which the engine is woken. It is made before the engine, so that what reports to the engine can
/// be started first; [`Waker::start`] takes it and discards what was sent until then.
#[derive(Debug)]
pub struct Wakeups {
    teller: Teller,
    received: Receiver<Woken>,
}

impl Default for Wakeups {
    fn default() -> Self {
        let (sender, received) = mpsc::sync_channel(WAITING);
        Self { teller: Teller(sender), received }
    }
}

impl Wakeups {
    /// The sending end, for any number of senders. Sending does nothing while there is no engine.
    pub fn teller(&self) -> Teller {
        self.teller.clone()
    }
}

/// Polls until it is dropped; then its threads end and every descriptor is closed.
#[derive(Debug)]
pub struct Waker {
    slots: Option<Arc<Slots>>,
    teller: Teller,
    orders: Option<Sender<Order>>,
    threads: Vec<JoinHandle<()>>,
}

impl Waker {
    /// Sends what the kernel reports through `wakeups` too, whose receiving end is returned. `kubepods` is the path of the
    /// pods' cgroup below the mounts; what it has is polled from the moment it is there. Without the threads or
    /// descriptors that this takes the kernel wakes nothing, which the log says.
    pub fn start(layout: &Layout, kubepods: &str, wakeups: Wakeups) -> (Self, Receiver<Woken>) {
        let Wakeups { teller, received: woken } = wakeups;
        while woken.try_recv().is_ok() {}
        let told = teller.0.clone();
        let mut waker = Self { slots: None, teller, orders: None, threads: Vec::new() };
        if let Err(error) = waker.watch(source::sources(layout, kubepods), told) {
            tracing::error!(%error, "the kernel wakes nobody, the timer does");
        }
        (waker, woken)
    }

    fn watch(&mut self, sources: Vec<Source>, told: SyncSender<Woken>) -> io::Result<()> {
        let slots = Arc::new(Slots::new(sources)?);
        self.slots = Some(slots.clone());
        // The first look is taken here, so that all that works is on when this returns.
        slots.renew();
        let (orders, taken) = mpsc::channel();
        self.orders = Some(orders);
        let polled = slots.clone();
        self.threads
            .push(thread::Builder::new().name("wake".into()).spawn(move || poll::run(&polled, &told))?);
        let tend = thread::Builder::new().name("wake-tend".into());
        self.threads.push(tend.spawn(move || tend::run(&slots, &taken))?);
        Ok(())
    }

    /// Names the point that wakes when it is passed (v1 only): bytes of the node's memory in use, less inactive file
    /// pages, as in `memory.available`. Returns at once; a move by a few MiB is none. While what is used up is made good
    /// by giving back inactive file pages the kernel sees no use grow: the point is then as good as the last call is new.
    pub fn arm(&mut self, memory_used_threshold: Option<u64>) {
        self.order(Kind::NodeThreshold, memory_used_threshold);
    }

    /// As [`Waker::arm`], of kubepods.
    pub fn arm_pods(&mut self, memory_used_threshold: Option<u64>) {
        self.order(Kind::PodsThreshold, memory_used_threshold);
    }

    /// Each way of being woken, and whether it works here: `psi node: on`, `psi kubepods: off (…)`.
    pub fn watching(&self) -> Vec<String> {
        self.slots.as_ref().map(|slots| slots.describe()).unwrap_or_default()
    }

    /// For those who have something to say from inside the agent.
    pub fn teller(&self) -> Teller {
        self.teller.clone()
    }

    fn order(&self, kind: Kind, working_set: Option<u64>) {
        if let Some(orders) = &self.orders {
            // The thread ends only with this.
            let _ = orders.send(Order { kind, working_set });
        }
    }
}

impl Drop for Waker {
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
