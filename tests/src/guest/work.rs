//! The job itself, once the machine is up: the same in every guest.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::wait::{WaitStatus, wait};

use super::serial::{self, report};
use super::{GuestError, fault, kernel_log, node};
use crate::harness::{GOLDEN, OWN_MACHINE};
use nodewarden_guest_job::{Job, Mark, Task};

/// The folders of a guest's programs after ours.
const SYSTEM_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// In the initramfs of a shell.
const BUSYBOX: &str = "/bin/busybox";
/// The first serial port.
const CONSOLE: &str = "/dev/ttyS0";

/// Does the job with the programs in `programs`/bin. Returns the tests' exit status.
///
/// # Errors
/// When a program can't be run.
pub fn run(job: &Job, programs: &Path) -> Result<i32, GuestError> {
    report(&Mark::Started(release()));
    let begun = Instant::now();
    fault::apply(job.fault)?;
    let status = match job.task {
        Task::Noop => 0,
        Task::Shell => shell(programs)?,
        Task::Test => tests(job, programs)?,
        Task::Bench => bench(job, programs)?,
        Task::Soak => soak(job, programs)?,
        Task::Node => match node::run(programs)? {},
    };
    kernel_log::report_faults().map_err(GuestError::read("/dev/kmsg"))?;
    report(&Mark::Lasted(begun.elapsed().as_millis() as u64));
    Ok(status)
}

fn release() -> String {
    nix::sys::utsname::uname()
        .map_or_else(|_| "?".into(), |names| names.release().to_string_lossy().into_owned())
}

fn tests(job: &Job, programs: &Path) -> Result<i32, GuestError> {
    let port = || serial::open().map_err(GuestError::read(serial::RESULTS));
    let agent = programs.join("bin/nodewarden");
    let mut command = command(programs, programs.join("bin/nodewarden-e2e"));
    command.arg("--agent").arg(&agent);
    command.args(["--patience", &job.patience.to_string()]).args(&job.filters);
    command.args(["--second-attempts", &job.second_attempts.to_string()]);
    command.stdout(port()?).stderr(port()?);
    let status = complete(&mut command)?;
    if job.features {
        features(programs, &agent, job.patience)?;
    }
    Ok(status)
}

fn bench(job: &Job, programs: &Path) -> Result<i32, GuestError> {
    let port = || serial::open().map_err(GuestError::read(serial::RESULTS));
    let mut command = command(programs, programs.join("bin/nodewarden-bench"));
    command.args(&job.filters).arg("--agent").arg(programs.join("bin/nodewarden"));
    command.args(["--patience", &job.patience.to_string()]);
    command.stdout(port()?).stderr(port()?);
    complete(&mut command)
}

fn soak(job: &Job, programs: &Path) -> Result<i32, GuestError> {
    let port = || serial::open().map_err(GuestError::read(serial::RESULTS));
    let mut command = command(programs, programs.join("bin/nodewarden-stage"));
    command.arg("--agent").arg(programs.join("bin/nodewarden"));
    command.args(["soak", "--patience", &job.patience.to_string()]).args(&job.filters);
    command.stdout(port()?).stderr(port()?);
    complete(&mut command)
}

/// Passes on what each feature does here.
fn features(programs: &Path, agent: &Path, patience: u32) -> Result<(), GuestError> {
    let mut command = command(programs, programs.join("bin/nodewarden-e2e"));
    command.arg("--features").arg("--agent").arg(agent).args(["--patience", &patience.to_string()]);
    command.stdout(Stdio::piped());
    let mut child = start(&mut command)?;
    for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(GuestError::read("the output of nodewarden-e2e --features"))?;
        // The others are the agent's own words.
        if line.starts_with('{') {
            report(&Mark::Feature(line));
        }
    }
    match finish(&command, child)? {
        0 => Ok(()),
        status => Err(GuestError::Failed { path: "nodewarden-e2e --features".into(), status }),
    }
}

/// A shell on the first serial port: systemd made it this service's terminal, process 1 has to do so itself.
fn shell(programs: &Path) -> Result<i32, GuestError> {
    if std::process::id() != 1 {
        let mut command = command(programs, "/bin/bash".into());
        return complete(command.arg("-i"));
    }
    let mut applets = command(programs, BUSYBOX.into());
    complete(applets.args(["--install", "-s", "/bin"]))?;
    let console = || File::options().read(true).write(true).open(CONSOLE).map_err(GuestError::read(CONSOLE));
    // Process 1 has no terminal: without one of its own the shell could not stop jobs.
    let mut command = command(programs, BUSYBOX.into());
    command.args(["setsid", "-c", "sh", "-i"]).stdin(console()?).stdout(console()?).stderr(console()?);
    complete(&mut command)
}

fn command(programs: &Path, program: PathBuf) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(programs.join("work"))
        .env("PATH", format!("{}:{SYSTEM_PATH}", programs.join("bin").display()))
        .env("HOME", "/root")
        .env(OWN_MACHINE, "1");
    // The initramfs has them where the host does.
    let golden = programs.join("shared/golden");
    if golden.is_dir() {
        command.env(GOLDEN, golden);
    }
    command
}

fn start(command: &mut Command) -> Result<Child, GuestError> {
    command.spawn().map_err(|source| GuestError::Start { path: command.get_program().into(), source })
}

fn complete(command: &mut Command) -> Result<i32, GuestError> {
    let child = start(command)?;
    finish(command, child)
}

/// Waits for `child`, and as process 1 for every orphan that ends meanwhile.
fn finish(command: &Command, child: Child) -> Result<i32, GuestError> {
    loop {
        let status = match wait() {
            Ok(WaitStatus::Exited(pid, code)) if pid.as_raw() == child.id() as i32 => code,
            // As a shell reports it.
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid.as_raw() == child.id() as i32 => {
                128 + signal as i32
            }
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(source) => return Err(GuestError::Wait { path: command.get_program().into(), source }),
        };
        return Ok(status);
    }
}
