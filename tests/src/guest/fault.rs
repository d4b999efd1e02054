//! Breaks the machine on purpose: tests of the harness itself.

use std::path::Path;
use std::time::Duration;

use nix::mount::MsFlags;

use super::error::write;
use super::{GuestError, btf, mounts};
use nodewarden_guest_job::Fault;

/// Where the broken type information is kept.
const BROKEN: &str = "/run/vmlinux.btf";
/// One `u64` further.
const BITS: u32 = 64;

/// Does what `fault` says.
///
/// # Errors
/// When the machine can't be broken.
pub fn apply(fault: Fault) -> Result<(), GuestError> {
    match fault {
        Fault::None => Ok(()),
        Fault::Panic => {
            write("/proc/sys/kernel/sysrq", "1")?;
            write("/proc/sysrq-trigger", "c")
        }
        Fault::Offset => wrong_offset(Path::new(BROKEN)),
        Fault::Hang => loop {
            std::thread::sleep(Duration::from_secs(3600));
        },
    }
}

/// Every program that reads the type information from now on finds the wait for a CPU where something else
/// is.
fn wrong_offset(broken: &Path) -> Result<(), GuestError> {
    let mut bytes = std::fs::read(btf::VMLINUX).map_err(GuestError::read(btf::VMLINUX))?;
    btf::shift_member(&mut bytes, "sched_info", "run_delay", BITS)
        .map_err(|source| GuestError::Btf { path: btf::VMLINUX.into(), source })?;
    std::fs::write(broken, bytes).map_err(GuestError::make(broken))?;
    mounts::again(BROKEN, btf::VMLINUX, MsFlags::MS_BIND)
}
