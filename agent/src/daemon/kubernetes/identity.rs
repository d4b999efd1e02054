//! The identity of this agent among those that might have the same node name.

use std::fs;
use std::io;
use std::path::Path;

use nodewarden_storage::private_file;

/// Below the state directory.
const FILE: &str = "identity";
/// Gives another random uuid at each reading.
const RANDOM: &str = "/proc/sys/kernel/random/uuid";

/// The identity in the state directory: the same after a restart, another one in another directory. Made
/// where there is none, or a damaged one.
///
/// # Errors
/// The file cannot be read or written.
pub fn keep(state_dir: &Path) -> io::Result<String> {
    let path = state_dir.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) if is_identity(text.trim()) => return Ok(text.trim().to_owned()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let identity = fs::read_to_string(RANDOM)?.trim().to_owned();
    private_file::write(&path, identity.as_bytes())?;
    Ok(identity)
}

/// Whether it looks like a uuid.
fn is_identity(text: &str) -> bool {
    text.len() == 36 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let first = keep(dir.path()).unwrap();
        assert!(is_identity(&first), "{first}");
        assert_eq!(keep(dir.path()).unwrap(), first);
        fs::write(dir.path().join(FILE), "damaged").unwrap();
        assert_ne!(keep(dir.path()).unwrap(), first);
    }
}
