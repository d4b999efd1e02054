//! The kernel programs, one file for each topic. They count into arrays indexed by slot (see `slots`) and
//! send rare events to the agent through one ring buffer. Every event takes constant time, and hot paths
//! handle no strings.

#![no_std]
#![no_main]
#![feature(asm_experimental_arch, core_intrinsics)]
#![expect(internal_features, reason = "see count: atomic addition, a barrier")]
#![expect(
    clippy::needless_borrows_for_generic_args,
    reason = "the kernel takes a map's key and value by address: by value they would be copied first"
)]

mod block;
mod cgroup_lifecycle;
mod clock;
mod count;
mod cpu;
mod device;
mod exclusive_cpus;
mod fill;
mod globals;
mod limit_writes;
mod maps;
mod neighbours;
mod network;
mod oom;
mod process;
mod read;
mod reclaim;
mod ring;
mod slots;
mod usage;

/// The kernel allows some of the helpers used here to GPL-compatible programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 4] = *b"GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
