//! The sources and the descriptors that are open of them.

use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};

use super::Woken;
use super::source::{Kind, Open, Source};

/// Epoll data of the descriptor that stops the thread; that of a source is its index.
pub const STOP: u64 = u64::MAX;

/// A threshold is not moved by less than this, in bytes.
const STEP: u64 = 4 << 20;

/// Shortest time between two wake-ups by one source.
const PAUSE: Duration = Duration::from_millis(10);

/// All sources with their state.
#[derive(Debug)]
pub struct Slots {
    pub epoll: Epoll,
    stop: EventFd,
    slots: Mutex<Vec<Slot>>,
}

#[derive(Debug)]
struct Slot {
    source: Source,
    state: State,
    last_wake: Option<Instant>,
    /// Where a threshold is set, in bytes of use.
    usage: Option<u64>,
}

#[derive(Debug)]
enum State {
    On(Open),
    Off(String),
}

impl Slots {
    pub fn new(sources: Vec<Source>) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        epoll.add(&stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))?;
        let new =
            |source| Slot { source, state: State::Off("not tried yet".into()), last_wake: None, usage: None };
        let slots = Mutex::new(sources.into_iter().map(new).collect());
        Ok(Self { epoll, stop, slots })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock()
    }

    /// Ends the polling thread.
    pub fn stop(&self) {
        // Fails only if the counter is at its maximum.
        let _ = self.stop.write(1);
    }

    /// Handles an epoll event of a source. `None` if its cgroup is gone or it woke within the last [`PAUSE`].
    pub fn take(&self, token: u64, flags: EpollFlags) -> Option<Woken> {
        let mut slots = self.lock();
        let slot = slots.get_mut(usize::try_from(token).ok()?)?;
        let State::On(open) = &mut slot.state else { return None };
        if let Err(gone) = open.take(flags) {
            slot.state = State::Off(gone);
            return None;
        }
        let now = Instant::now();
        if slot.last_wake.is_some_and(|last| now.duration_since(last) < PAUSE) {
            return None;
        }
        slot.last_wake = Some(now);
        Some(slot.source.kind.woken())
    }

    /// Opens sources that are not open, and closes those whose cgroup is gone.
    pub fn renew(&self) {
        let count = self.lock().len();
        for at in 0..count {
            let Some((source, usage, due)) = self.look(at) else { continue };
            if due {
                self.open(at, &source, usage);
            }
        }
    }

    /// A source, its threshold, and whether it has to be opened now.
    fn look(&self, at: usize) -> Option<(Source, Option<u64>, bool)> {
        let mut slots = self.lock();
        let slot = slots.get_mut(at)?;
        if let State::On(open) = &slot.state
            && !open.is_current()
        {
            slot.state = State::Off("its cgroup was removed".into());
        }
        Some((slot.source.clone(), slot.usage, matches!(slot.state, State::Off(_))))
    }

    /// Moves a threshold to the use that has this working set, in bytes. Returns false if nothing had to be
    /// done.
    pub fn arm(&self, kind: Kind, working_set: Option<u64>) -> bool {
        let (at, source, usage) = {
            let mut slots = self.lock();
            let Some(at) = slots.iter().position(|slot| slot.source.kind == kind) else { return false };
            let Some(slot) = slots.get_mut(at) else { return false };
            let usage = working_set.and_then(|bytes| slot.source.usage_at(bytes));
            let is_there = match (slot.usage, usage) {
                (Some(before), Some(now)) => before.abs_diff(now) < STEP,
                (before, now) => before == now,
            };
            if is_there && matches!(slot.state, State::On(_)) || usage.is_none() && slot.usage.is_none() {
                return false;
            }
            slot.usage = usage;
            (at, slot.source.clone(), usage)
        };
        self.open(at, &source, usage);
        true
    }

    /// Opens a source, which may take a while: without the lock, so that other sources can wake meanwhile.
    fn open(&self, at: usize, source: &Source, usage: Option<u64>) {
        let state = match source.open(usage) {
            Ok(open) => {
                let event = EpollEvent::new(source.kind.flags(), at as u64);
                match self.epoll.add(open.as_fd(), event) {
                    Ok(()) => State::On(open),
                    Err(errno) => State::Off(format!("epoll_ctl: {errno}")),
                }
            }
            Err(reason) => State::Off(reason),
        };
        if let Some(slot) = self.lock().get_mut(at) {
            // Closes the previous descriptor, which also removes it from epoll.
            slot.state = state;
        }
    }

    /// Whether every source is open, but for thresholds that are not set.
    pub fn all_work(&self) -> bool {
        let is_threshold = |kind| matches!(kind, Kind::NodeThreshold | Kind::PodsThreshold);
        let unset = |slot: &Slot| is_threshold(slot.source.kind) && slot.usage.is_none();
        self.lock().iter().all(|slot| matches!(slot.state, State::On(_)) || unset(slot))
    }

    /// One line per source: whether it works, and why not.
    pub fn describe(&self) -> Vec<String> {
        let one = |slot: &Slot| match &slot.state {
            State::On(open) => format!("{}: on{}", slot.source.kind.name(), open.detail()),
            State::Off(reason) => format!("{}: off ({reason})", slot.source.kind.name()),
        };
        self.lock().iter().map(one).collect()
    }
}
