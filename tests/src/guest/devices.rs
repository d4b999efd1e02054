//! Kernel modules, disks and the loopback device.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::kmod::{ModuleInitFlags, finit_module};

use super::GuestError;

/// Names of modules, a line each, in an order in which they can be loaded.
const ORDER: &str = "/modules/order";
/// How long a disk may take to appear once its driver is loaded.
const DISK_WAIT: Duration = Duration::from_secs(5);

/// Loads the modules that were packed.
///
/// # Errors
/// When one can't be loaded.
pub fn load_modules() -> Result<(), GuestError> {
    let order = match std::fs::read_to_string(ORDER) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        read => read.map_err(GuestError::read(ORDER))?,
    };
    for name in order.lines().filter(|name| !name.is_empty()) {
        let path = PathBuf::from(format!("/modules/{name}.ko"));
        let file = File::open(&path).map_err(GuestError::read(&path))?;
        match finit_module(&file, c"", ModuleInitFlags::empty()) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(source) => return Err(GuestError::Module { path, source }),
        }
    }
    Ok(())
}

/// The block device with this serial number.
pub fn disk(serial: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    entries
        .filter(|entry| {
            std::fs::read_to_string(entry.path().join("serial")).is_ok_and(|found| found.trim() == serial)
        })
        .map(|entry| Path::new("/dev").join(entry.file_name()))
        .find(|device| device.exists())
}

/// The block device with this serial number, which is known to be there.
///
/// # Errors
/// When it does not appear.
pub fn wait_for_disk(serial: &'static str) -> Result<PathBuf, GuestError> {
    let deadline = Instant::now() + DISK_WAIT;
    loop {
        match disk(serial) {
            Some(device) => return Ok(device),
            None if Instant::now() >= deadline => return Err(GuestError::NoDisk(serial)),
            None => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Brings up `lo`, which gives it 127.0.0.1 too.
///
/// # Errors
/// When the kernel refuses.
pub fn loopback_up() -> Result<(), GuestError> {
    set_up("lo").map_err(|source| GuestError::Network { device: "lo", source })
}

fn set_up(device: &str) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: ifreq is plain data, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one ifreq, which lives through the call; its name ends in zeros.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
