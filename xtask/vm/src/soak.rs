//! `cargo xtask soak … --vm`: a soak test in a guest with systemd.

use std::process::ExitCode;
use std::time::Duration;

use super::boot::Order;
use super::error::VmError;
use super::guest::{KernelChoice, choose};
use super::matrix;
use super::site::Site;
use super::verdict::Verdict;
use super::{INTERRUPTED, PATIENCE};
use nodewarden_guest_job::Task;

/// For the boot, the build-up, the last round and the clean-up.
const MORE: Duration = Duration::from_secs(45 * 60);
/// What the guest sees of memory, in MiB: pods use some hundreds, and the disks' files stay in its cache.
const MEMORY_MIB: u32 = 2048;
/// The same with Kubernetes' own programs, which are in the initramfs and so in memory.
const CLUSTER_MEMORY_MIB: u32 = 5120;

/// Runs `nodewarden-stage soak ARGUMENTS`, which takes about `time`, in a guest with this kernel; the
/// programs are built, with `cluster` also Kubernetes' own. Its lines are shown as they come.
///
/// # Errors
/// When the guest can't be booted at all.
pub fn soak(
    layout: &xtask_common::layout::Layout,
    kernel: KernelChoice,
    arguments: &[String],
    time: Duration,
    cluster: bool,
) -> Result<ExitCode, VmError> {
    let guests = choose(kernel, None, true)?;
    let [guest] = guests[..] else { return Err(VmError::OneKernel) };
    let site = Site::for_soak(layout, &[guest], cluster)?;
    if let Some((guest, reason)) = site.missing().next() {
        eprintln!("{guest}: {reason}");
        return Ok(ExitCode::FAILURE);
    }
    let order = Order {
        task: Task::Soak,
        filters: arguments.to_vec(),
        patience: PATIENCE,
        limit: time + MORE,
        memory_mib: if cluster { CLUSTER_MEMORY_MIB } else { MEMORY_MIB },
        ..Order::noop(guest)
    };
    match matrix::run(&site, &[order], 1) {
        Err(VmError::Interrupted) => {
            eprintln!("\ninterrupted");
            Ok(ExitCode::from(INTERRUPTED))
        }
        outcomes => Ok(match outcomes?.iter().all(|one| one.verdict == Verdict::Passed) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        }),
    }
}
