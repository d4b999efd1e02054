//! The kernel programs, one file a topic. They count into arrays by slot (see `slots`) and hand rare events to
//! the agent through one ring buffer. Constant time per event, no strings in hot paths.

#![no_std]
#![no_main]
#![feature(core_intrinsics)]
#![expect(internal_features, reason = "atomic addition, see count::add")]
#![expect(
    clippy::needless_borrows_for_generic_args,
    reason = "the kernel takes a map's key and value by address: by value they would be copied first"
)]

mod block;
mod count;
mod cpu;
mod device;
mod globals;
mod life;
mod maps;
mod network;
mod oom;
mod process;
mod read;
mod reclaim;
mod ring;
mod slots;

/// Kernel helpers used here are for GPL-compatible programs only.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 4] = *b"GPL\0";

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}
