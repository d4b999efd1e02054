//! Whose logs a pod's log directory has: several agents, a kubelet among them, may share the directory of all
//! pods' logs. The agent that makes a pod's directory puts a file with its own name into it, and the logs of
//! another owner are never removed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

/// Name of the file in a pod's log directory. Collectors of logs look into the directories beside it.
const FILE: &str = ".nodewarden-owner";
/// Bytes that are read of it: an owner's name has 16.
const LONGEST: u64 = 64;

const DIRECTORY: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);
/// Not blocking: a FIFO of that name must not hang its reader.
const OWN: OFlag = OFlag::O_NOFOLLOW.union(OFlag::O_NONBLOCK).union(OFlag::O_CLOEXEC);

/// Notes in a pod's log directory that its logs belong to `owner` (the value of the label
/// [`OWNER`](crate::spec::OWNER)). One that has an owner keeps it.
///
/// # Errors
/// The directory is not there or is a link, or the file cannot be written.
pub fn mark(logs: &Path, owner: &str) -> io::Result<()> {
    let dir = open(logs, DIRECTORY, Mode::empty())?;
    let flags = OWN.union(OFlag::O_WRONLY).union(OFlag::O_CREAT).union(OFlag::O_EXCL);
    match openat(&dir, FILE, flags, Mode::from_bits_truncate(0o644)) {
        Ok(file) => File::from(file).write_all(owner.as_bytes()),
        Err(Errno::EEXIST) => complete(&dir, owner),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes the owner into a file that is empty: the agent was killed after making it.
fn complete(dir: &OwnedFd, owner: &str) -> io::Result<()> {
    let mut file = File::from(openat(dir, FILE, OWN.union(OFlag::O_RDWR), Mode::empty())?);
    let found = file.metadata()?;
    if found.is_file() && found.len() == 0 { file.write_all(owner.as_bytes()) } else { Ok(()) }
}

/// The owner of the logs in a pod's log directory; `None` where none is noted or it cannot be read.
pub fn owner(logs: &Path) -> Option<String> {
    let dir = open(logs, DIRECTORY, Mode::empty()).ok()?;
    let file = File::from(openat(&dir, FILE, OWN.union(OFlag::O_RDONLY), Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned()).filter(|owner| !owner.is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_first_owner_stays() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(owner(dir.path()), None);
        mark(dir.path(), "1234567890abcdef").unwrap();
        mark(dir.path(), "fedcba0987654321").unwrap();
        assert_eq!(owner(dir.path()).as_deref(), Some("1234567890abcdef"));
        assert!(mark(&dir.path().join("none"), "a").is_err());
        assert_eq!(owner(&dir.path().join("none")), None);
    }

    #[test]
    fn only_a_short_regular_file_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (real, file) = (dir.path().join("real"), dir.path().join("pod").join(FILE));
        fs::create_dir(dir.path().join("pod")).unwrap();
        fs::write(&real, "me").unwrap();
        let pod = dir.path().join("pod");
        symlink(&real, &file).unwrap();
        assert_eq!(owner(&pod), None, "a link");
        fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, Mode::S_IRWXU).unwrap();
        assert_eq!(owner(&pod), None, "a FIFO");
        fs::remove_file(&file).unwrap();
        fs::write(&file, "x".repeat(10_000)).unwrap();
        assert_eq!(owner(&pod).map(|owner| owner.len()), Some(64));
        fs::write(&file, "").unwrap();
        assert_eq!(owner(&pod), None, "its writer was killed");
        mark(&pod, "me").unwrap();
        assert_eq!(owner(&pod).as_deref(), Some("me"));
        symlink(&pod, dir.path().join("link")).unwrap();
        assert_eq!(owner(&dir.path().join("link")), None, "a directory that is a link");
    }
}
