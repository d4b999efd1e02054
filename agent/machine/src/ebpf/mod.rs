//! Everything eBPF: which fields the kernel has (`layout`, `symbols`), loading and attaching the programs
//! (`load`, `topics`, `devices`), reading their counters (`cells`, `slots`) and their events (`ring`, `decode`).
//!
//! The programs themselves are in the package nodewarden-ebpf; what both sides share is in nodewarden-ebpf-abi.

mod btf;
mod cells;
mod clock;
mod cost;
mod decode;
mod devices;
mod error;
mod fields;
mod layout;
mod load;
mod ring;
mod slots;
mod spaces;
mod symbols;
mod topics;

pub use cells::{Cells, RawCpu};
pub use clock::MonotonicClock;
pub use cost::{map_bytes, map_bytes_formula};
pub use decode::{Record, decode, text};
pub use devices::{DeviceTables, device_name};
pub use error::KernelError;
pub use layout::Layout;
pub use load::{Kernel, LoadOptions, Loaded};
pub use ring::{RingReader, raise_priority};
pub use slots::SlotPool;
pub use spaces::{Space, Spaces};
