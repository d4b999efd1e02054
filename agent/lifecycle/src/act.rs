//! What a pod's worker does: carries out plans and orders at the runtime, on disk and in the kernel.

pub mod admitting;
mod containers;
mod counters;
pub mod cpusets;
pub mod devices;
mod dying;
pub mod evict;
mod exits;
pub mod housekeeping;
mod images;
pub mod inbox;
pub mod kill;
pub mod look;
mod objects;
mod permits;
pub mod probing;
mod reports;
pub mod resize;
mod sandbox;
mod shrink;
mod signal;
pub mod terminate;
pub mod turn;
