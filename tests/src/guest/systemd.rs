//! Handing the machine to systemd in a Debian root, which then starts our job as a service.

use std::ffi::CString;
use std::path::Path;

use nix::mount::MsFlags;
use nix::unistd::{chdir, chroot, execv};

use super::{GuestError, devices, mounts};
use nodewarden_guest_job::{JOB_FILE, Job, PROGRAMS, ROOT_DISK, Task};

/// Where our files are seen in the Debian root.
pub const PROGRAMS_THERE: &str = "/run/nodewarden";
const NEW_ROOT: &str = "/newroot";
const INIT: &std::ffi::CStr = c"/sbin/init";
/// Units made at run time (systemd.unit(5)); they live as long as /run.
const UNITS: &str = "/run/systemd/system";
const SERVICE: &str = "nodewarden-guest.service";

/// Mounts the Debian root, leaves the service and the programs in /run, and becomes its init.
///
/// # Errors
/// When the root is not there or can't be entered; never returns otherwise.
pub fn hand_over(job: &Job) -> Result<std::convert::Infallible, GuestError> {
    mounts::disk(&devices::wait_for_disk(ROOT_DISK)?, NEW_ROOT)?;
    service(job.task)?;
    make(PROGRAMS_THERE)?;
    let copy = Path::new(PROGRAMS).join("job.json");
    std::fs::copy(JOB_FILE, &copy).map_err(GuestError::make(copy))?;
    // The programs need not be copied: the memory file system stays below the new root.
    mounts::again(PROGRAMS, PROGRAMS_THERE, MsFlags::MS_BIND)?;
    super::mount_scratch(&format!("{NEW_ROOT}/tmp"))?;
    for place in ["/proc", "/sys", "/dev", "/run"] {
        mounts::again(place, &format!("{NEW_ROOT}{place}"), MsFlags::MS_MOVE)?;
    }
    let enter = |source| GuestError::ChangeRoot { path: NEW_ROOT.into(), source };
    chdir(NEW_ROOT).map_err(enter)?;
    mounts::again(".", "/", MsFlags::MS_MOVE)?;
    chroot(".").and_then(|()| chdir("/")).map_err(enter)?;
    execv::<CString>(INIT, &[INIT.to_owned()])
        .map_err(|errno| GuestError::Start { path: "/sbin/init".into(), source: errno.into() })
}

fn make(path: &str) -> Result<(), GuestError> {
    std::fs::create_dir_all(path).map_err(GuestError::make(path))
}

/// Leaves our unit where systemd finds it, and takes the login away from the console.
fn service(task: Task) -> Result<(), GuestError> {
    let wants = format!("{UNITS}/multi-user.target.wants");
    make(&wants)?;
    let path = format!("{UNITS}/{SERVICE}");
    std::fs::write(&path, unit(task)).map_err(GuestError::make(&path))?;
    let links = [
        (format!("../{SERVICE}"), format!("{wants}/{SERVICE}")),
        masked("serial-getty@ttyS0.service"),
        masked("getty@tty1.service"),
    ];
    for (target, link) in links {
        std::os::unix::fs::symlink(target, &link).map_err(GuestError::make(link))?;
    }
    Ok(())
}

fn masked(unit: &str) -> (String, String) {
    ("/dev/null".into(), format!("{UNITS}/{unit}"))
}

/// Delegation makes systemd hand every controller down from the root, as it does for a container runtime.
fn unit(task: Task) -> String {
    let terminal = match task {
        Task::Shell => {
            "StandardInput=tty-force\nTTYPath=/dev/ttyS0\nStandardOutput=tty\nEnvironment=TERM=vt220\n"
        }
        Task::Test | Task::Bench | Task::Soak | Task::Node | Task::Noop => "StandardOutput=journal+console\n",
    };
    format!(
        "[Unit]\nDescription=What nodewarden's xtask asked this machine to do\nAfter=containerd.service\n\n\
         [Service]\nExecStart={PROGRAMS_THERE}/bin/nodewarden-guest systemd\nDelegate=yes\nTasksMax=infinity\n\
         LimitNOFILE=1048576\nOOMPolicy=continue\n{terminal}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_shell_gets_the_terminal() {
        assert!(unit(Task::Shell).contains("TTYPath=/dev/ttyS0\n"));
        assert!(!unit(Task::Test).contains("tty"));
    }
}
