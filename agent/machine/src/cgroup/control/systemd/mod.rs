//! The driver that asks systemd for slices over D-Bus.
//!
//! A limit is set as a property of the unit if systemd has one for it, so that `systemctl daemon-reload` and
//! `daemon-reexec` change nothing; the others (huge pages, `memory.oom.group` of slices) are written to the
//! files afterwards.
//!
//! Two differences from a kubelet's units:
//!
//! - The QoS levels keep their controllers when their last pod is removed (see [`properties::of_slice`]).
//! - `memory.oom.group` of a container's scope is written by systemd from `OOMPolicy=`, which can only be set
//!   when the scope is created. A scope created without it loses a 1 at the next `daemon-reload`; a file
//!   `/run/systemd/system/cri-containerd-.scope.d/*.conf` with `[Scope]` and `OOMPolicy=kill` (systemd 253)
//!   sets it for all scopes of containerd that are created later.
//!
//! - [`mod@unit`]: the unit of a cgroup's path, and where systemd puts it.
//! - [`properties`]: limits as a unit's properties; [`settle`]: the limits after systemd's rounding.
//! - [`bus`]: the calls, each with a time limit; [`kept`]: one bound of a unit that is another program's.

mod bus;
mod cpus;
mod driver;
mod error;
#[cfg(test)]
mod golden;
mod kept;
mod private;
mod properties;
mod settle;
mod unit;

pub use driver::Systemd;
pub use error::SystemdError;
pub use kept::{MemoryBound, keep_memory_bound};
use unit::Unit;
