//! `nodewarden-guest`: process 1 of a virtual machine that `cargo xtask vm` boots, or the service in one that
//! runs systemd. It does the job in `/job.json`, reports the result on the second serial port, and powers
//! off.

pub mod btf;
mod devices;
mod error;
mod fault;

mod job_file;
mod kernel_log;
mod mounts;
mod node;
mod serial;
mod systemd;
mod work;

use std::panic::{UnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::reboot::{RebootMode, reboot};

pub use error::GuestError;
use nodewarden_guest_job::{JOB_FILE, Layout, Mark, PROGRAMS, SCRATCH_DISK};
use serial::report;

/// Runs the command line of `nodewarden-guest`.
pub fn main() -> ExitCode {
    if std::process::id() == 1 {
        end_with(init);
    }
    if std::env::args().nth(1).as_deref() == Some("systemd") {
        end_with(service);
    }
    eprintln!(
        "nodewarden-guest is process 1 of a virtual machine (or `nodewarden-guest systemd`, its service, which powers \
         the machine off): see `cargo xtask vm --help`"
    );
    ExitCode::FAILURE
}

/// The whole life of a guest without an init system.
fn init() -> Result<i32, GuestError> {
    mounts::first()?;
    let job = job_file::read(Path::new(JOB_FILE))?;
    devices::load_modules()?;
    match job.layout {
        Layout::Systemd => match systemd::hand_over(&job)? {},
        Layout::V2 => mounts::cgroup_v2()?,
        Layout::V1 => mounts::cgroup_v1()?,
    }
    mounts::rest()?;
    devices::loopback_up()?;
    mount_scratch("/tmp")?;
    work::run(&job, Path::new(PROGRAMS))
}

/// The job as a service of systemd.
fn service() -> Result<i32, GuestError> {
    let programs = Path::new(systemd::PROGRAMS_THERE);
    work::run(&job_file::read(&programs.join("job.json"))?, programs)
}

/// Puts the scratch disk on `target`, if there is one: else the tests that need a block device are skipped.
fn mount_scratch(target: &str) -> Result<(), GuestError> {
    devices::disk(SCRATCH_DISK).map_or(Ok(()), |device| mounts::disk(&device, target))
}

/// Runs the job, reports how it ended, and powers the machine off.
fn end_with(job: impl FnOnce() -> Result<i32, GuestError> + UnwindSafe) -> ! {
    report(&match catch_unwind(job) {
        Ok(Ok(status)) => Mark::End(status),
        Ok(Err(error)) => Mark::Error(error::chain(&error)),
        Err(_) => Mark::Error("nodewarden-guest panicked: the console shows where".into()),
    });
    nix::unistd::sync();
    // Only returns when refused; process 1 must not end, and the machine is then ended from outside.
    let refused = reboot(RebootMode::RB_POWER_OFF);
    loop {
        eprintln!("cannot power off: {refused:?}");
        std::thread::sleep(Duration::from_secs(60));
    }
}
