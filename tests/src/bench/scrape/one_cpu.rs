//! Keeps the client of a scrape on one CPU. Without that the kernel moves it to the CPU of the thread that
//! answers, as it does with two processes that wake each other on one machine: then the client reads what was
//! sent while the server waits. A Prometheus is on another machine.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::harness::Failure;

/// The calling thread may use the last of its CPUs alone, until this is dropped.
pub struct OneCpu(CpuSet);

impl OneCpu {
    /// # Errors
    /// The kernel refuses it.
    pub fn enter() -> Result<Self, Failure> {
        let failed = |error| Failure::Unexpected(format!("the client cannot be kept on one CPU: {error}"));
        let own = sched_getaffinity(Pid::from_raw(0)).map_err(failed)?;
        let mut one = CpuSet::new();
        if let Some(last) = (0..CpuSet::count()).rev().find(|cpu| own.is_set(*cpu).unwrap_or(false)) {
            one.set(last).map_err(failed)?;
        }
        sched_setaffinity(Pid::from_raw(0), &one).map_err(failed)?;
        Ok(Self(own))
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        // If it fails, the thread stays where it is.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.0);
    }
}
