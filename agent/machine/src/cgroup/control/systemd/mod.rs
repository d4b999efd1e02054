//! The driver that asks systemd for slices over D-Bus.
//!
//! A value is a property of the unit wherever systemd has one, so that `systemctl daemon-reload` and
//! `daemon-reexec` change nothing; what it has none for (huge pages, `memory.oom.group` of slices) is written
//! to the files afterwards.
//!
//! Two things that a kubelet's units lack:
//!
//! - Levels keep their controllers when their last pod goes (see [`properties::of_slice`]).
//! - `memory.oom.group` of a container's scope is written by systemd from `OOMPolicy=`, which can only be set
//!   when the scope is made. A scope made without it loses a 1 at the next `daemon-reload`; a file
//!   `/run/systemd/system/cri-containerd-.scope.d/*.conf` with `[Scope]` and `OOMPolicy=kill` (systemd 253)
//!   gives it to all scopes of containerd that are made later.
//!
//! - [`mod@unit`]: which unit a cgroup's path is, and where systemd keeps it.
//! - [`properties`]: limits as a unit's properties; [`settle`]: what systemd makes of limits.
//! - [`bus`]: the calls, each with a time limit.

mod bus;
mod cpus;
mod driver;
mod error;
#[cfg(test)]
mod golden;
mod private;
mod properties;
mod settle;
mod unit;

pub use driver::Systemd;
pub use error::SystemdError;
use unit::Unit;
