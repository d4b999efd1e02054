//! Exclusive CPUs: who else runs on the CPUs that one container has for itself.
//!
//! `watch` follows which container has which, and reads each second what the kernel programs counted there.
//! `recent` keeps the longest turns for as long as scrapes need them, `report` decides when the pod gets an
//! event and in which words: both without a clock. While no CPU is exclusive the thread only waits.

#![deny(missing_docs)]

mod recent;
mod report;
mod watch;

pub use watch::{Deps, ExclusiveCpuWatch, ShownExclusiveCpus};
