//! Whom tasks waited for: what the kernel programs keep and count.

/// How many turns of a CPU or a disk are remembered; a power of two.
pub const TURNS: usize = 16;

/// In `WaitKey::neighbour`: the wait began before the oldest turn that is remembered, so that it is not known
/// whose turn it was then. No cgroup has this id.
pub const EARLIER: u64 = u64::MAX;
/// In `WaitKey::neighbour`: the machine as a whole was short of memory. No cgroup has this id.
pub const NODE: u64 = u64::MAX - 1;

/// In `WaitKey::resource`: a CPU that ran tasks of the neighbour.
pub const WAIT_CPU: u64 = 0;
/// Memory that the kernel reclaimed because of the neighbour's limit, or of the machine.
pub const WAIT_MEMORY: u64 = 1;
/// A disk that served requests of the neighbour.
pub const WAIT_DISK: u64 = 2;

/// A time in which a CPU ran tasks of one cgroup, or nothing, or a disk served its requests. It begins where
/// the turn before it ends.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Kernel id of the cgroup in the controller's hierarchy; 0 for none.
    pub cgroup: u64,
    /// When it ended, CLOCK_MONOTONIC in ns; 0 if there was none so far.
    pub end_ns: u64,
}

/// The last turns.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turns {
    /// Turn number `n` at index `n % TURNS`.
    pub turns: [Turn; TURNS],
    /// How many there were.
    pub count: u64,
}

/// What ran lately on one CPU, which alone writes it, with interrupts disabled.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct NeighbourCpu {
    /// Its last turns.
    pub turns: Turns,
    /// When the running task was switched to, by the scheduler's clock where the program can read it, else
    /// CLOCK_MONOTONIC; 0 before the first switch.
    pub since_ns: u64,
    /// Its cgroup, as in `Turn`.
    pub cgroup: u64,
    /// The scheduler's clock minus that of `since_ns`, measured at the last switch; 0 if it is not known.
    pub clock_offset_ns: u64,
    /// The running task; 0 is the idle task.
    pub pid: u32,
    /// Not used.
    pub padding: u32,
}

/// Key of a sum of waits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaitKey {
    /// Kernel id of the cgroup whose tasks waited, in the controller's hierarchy.
    pub waiting: u64,
    /// That of the cgroup for which they waited, or `EARLIER` or `NODE`.
    pub neighbour: u64,
    /// For what: `WAIT_CPU` ….
    pub resource: u64,
}
