//! Everything eBPF: which fields the kernel has (`layout`, `symbols`), whether its tracepoints have the
//! arguments that the programs read (`prototype`), loading and attaching the programs (`load`, `programs`,
//! `devices`, `exclusive_cpus`, `neighbours`), reading their counters (`cells`, `slots`) and their events
//! (`ring`). What the device programs of others decide is read from their instructions (`device_programs`,
//! `device_filter`).
//!
//! Nothing here knows a topic by itself: what each needs is in `nodewarden_model::Topic::spec`. The programs
//! are in the package nodewarden-ebpf; what both sides share is in nodewarden-ebpf-abi.

mod btf;
mod cells;
mod clock;
mod cost;
mod device_filter;
pub mod device_programs;
mod devices;
mod error;
mod exclusive_cpus;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod layout;
mod load;
mod neighbours;
mod priority;
mod programs;
mod prototype;
mod ring;
mod slots;
mod spaces;
mod symbols;
mod usage;

pub use cells::{Cells, RawCpu};
pub use clock::{Moment, MonotonicClock};
pub use cost::{map_bytes, map_bytes_formula};
pub use device_filter::DeviceQuestion;
pub use devices::DeviceTables;
pub use error::KernelError;
pub use exclusive_cpus::{CpuReading, ExclusiveCpus, ExclusiveCpusError, OwnerCgroup};
pub use layout::Layout;
pub use load::{
    Kernel, LoadOptions, Loaded, Requested, allow_locked_memory, attached_at_start, names_oom_victims,
};
pub use neighbours::{Neighbours, PairWait};
pub use priority::{raise_priority, run_in_real_time};
pub use ring::RingReader;
pub use slots::SlotPool;
pub use spaces::Spaces;
pub use usage::{GroupUsages, UsageError, UsageReading};
