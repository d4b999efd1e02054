//! `cargo xtask vm shell`: a guest on this terminal, with the agent and the tests in it.

use super::boot::root_disk;
use super::error::VmError;
use super::guest::Guest;
use super::initramfs;
use super::machine::{Console, Emulation, MEMORY_MIB, Plan, Shape};
use super::site::Site;
use nodewarden_guest_job::{Fault, Job, Layout, Task};

/// Boots it and gives it this terminal until it ends.
///
/// # Errors
/// When it can't be packed or QEMU fails.
pub fn run(site: &Site, guest: Guest) -> Result<(), VmError> {
    let kernel = &site.prepared.kernels[&guest.family];
    let job = Job {
        layout: guest.layout,
        task: Task::Shell,
        filters: Vec::new(),
        patience: 1,
        second_attempts: 0,
        features: false,
        fault: Fault::None,
    };
    let archive = initramfs::initramfs(site.layout, kernel, &site.programs, &job, None, site.temp())?;
    let results = site.temp().join("results");
    let plan = Plan {
        qemu: &site.prepared.qemu,
        kernel: &kernel.vmlinux,
        initramfs: &archive,
        root: root_disk(guest, &site.prepared),
        node: None,
        scratch: Some(&site.prepared.scratch),
        emulation: Emulation::default(),
        memory_mib: MEMORY_MIB,
        shape: Shape::Small,
        console: Console::Terminal { results: &results },
    };
    eprintln!(
        "booting {} ({guest}); nodewarden and nodewarden-e2e are in its PATH\n\
         to leave: `exit`, or Ctrl-A then x, which ends the machine at once",
        kernel.release
    );
    let mut command = plan.command();
    let path = || std::path::PathBuf::from(plan.command().get_program());
    let status =
        command.status().map_err(|source| VmError::Qemu { action: "start", path: path(), source })?;
    // The guest's own words on why it could not give a shell.
    let reported = std::fs::read_to_string(&results).unwrap_or_default();
    if guest.layout != Layout::Systemd || !status.success() {
        reported.lines().filter(|line| line.contains("error")).for_each(|line| eprintln!("{line}"));
    }
    Ok(())
}
