//! A second node of a harmless device: the same device numbers at another path.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::harness::Failure;

/// Character devices that no container has by default, and that opening does not change: fuse, loop-control,
/// kmsg, tun, hwrng (Documentation/admin-guide/devices.txt).
const CANDIDATES: [(u64, u64); 5] = [(10, 229), (10, 237), (1, 11), (10, 200), (10, 183)];

/// A device node created by the test.
pub struct Twin {
    pub path: PathBuf,
    pub major: u64,
    pub minor: u64,
}

impl Twin {
    /// Creates a node of the first of these devices that this kernel has, in a new directory.
    ///
    /// # Errors
    /// Skips the test if this kernel has none of them, or if nodes in the directory cannot be opened.
    pub fn make(folder: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(Failure::file(folder))?;
        let mut reasons = Vec::new();
        for (major, minor) in CANDIDATES {
            let path = folder.join(format!("twin-{major}-{minor}"));
            let made = mknod(&path, SFlag::S_IFCHR, Mode::from_bits_truncate(0o666), makedev(major, minor));
            let opened = made.map_err(std::io::Error::from).and_then(|()| {
                std::fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path).map(drop)
            });
            match opened {
                Ok(()) => return Ok(Self { path, major, minor }),
                Err(error) => reasons.push(format!("{major}:{minor}: {error}")),
            }
        }
        Err(Failure::Skip(format!("no harmless device to make a twin of: {}", reasons.join(", "))))
    }
}
