//! Pods are held back before any has to be killed: `memory.high`, `cpu.idle` and the burst of CPU quotas.
//! Pure.

mod cpu;
mod memory;

pub use cpu::{CpuFiles, Quota, burst, idle};
pub use memory::{Bounds, MemoryControl, PodMemory};
