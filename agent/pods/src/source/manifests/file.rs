//! Reads one file of a manifest directory, and finds out without reading it that it is as it was.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::ManifestError;

/// Longest manifest in bytes: the kubelet's `maxConfigLength`.
const LONGEST: u64 = 10 << 20;
/// A file that was written less than this before it was read may be written again at the same time by the
/// file system's clock, whose steps are 4 ms on ext4 and up to 2 s on FAT.
const SETTLED: Duration = Duration::from_secs(3);

/// What is in a file.
#[derive(Debug)]
pub enum Content {
    /// The file is gone, or not a regular file.
    None,
    /// It has the given stamp.
    AsBefore,
    /// Its text, and its stamp if a later write would change it.
    Text(String, Option<Stamp>),
}

/// Identity, size and times (nanoseconds since 1970) of a file. Every write changes at least one of them,
/// unless the machine's clock was set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    device: u64,
    inode: u64,
    links: u64,
    size: u64,
    modified: i128,
    changed: i128,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let time = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            links: metadata.nlink(),
            size: metadata.size(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether it is of this very file of a directory, and no other name leads to it: then each change of it
    /// is one in that directory. `inode`: as the directory has it, where a link has an inode of its own, and
    /// what a mount hides has its own too.
    pub fn is_only_name(&self, inode: u64) -> bool {
        self.inode == inode && self.links == 1
    }

    /// Whether a write at `now` or later changes it.
    fn is_settled(&self, now: SystemTime) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        let until = self.modified.max(self.changed).saturating_add(SETTLED.as_nanos() as i128);
        i128::try_from(now).is_ok_and(|now| now >= until)
    }
}

/// What is in a file, following links as the kubelet does. Not read again if its stamp is `known`; a link to
/// nowhere is an error.
///
/// # Errors
/// As of open(2), stat(2) and read(2); a text that is too long or not UTF-8.
pub fn read(path: &Path, known: Option<Stamp>) -> Result<Content, ManifestError> {
    let fail = |call| move |source: io::Error| ManifestError::File { call, path: path.to_owned(), source };
    if let Some(known) = known
        && fs::metadata(path).is_ok_and(|found| found.is_file() && Stamp::of(&found) == known)
    {
        return Ok(Content::AsBefore);
    }
    // Opening a FIFO would wait for its writer.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            return Ok(Content::None);
        }
        // A socket.
        Err(e) if e.raw_os_error() == Some(libc::ENXIO) => return Ok(Content::None),
        Err(source) => return Err(fail("open")(source)),
    };
    let metadata = file.metadata().map_err(fail("stat"))?;
    if !metadata.is_file() {
        return Ok(Content::None);
    }
    let stamp = Stamp::of(&metadata);
    let stamp = stamp.is_settled(SystemTime::now()).then_some(stamp);
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len().min(LONGEST)).unwrap_or(0) + 1);
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(fail("read"))?;
    let length = bytes.len() as u64;
    if length > LONGEST {
        return Err(ManifestError::TooLong { path: path.to_owned(), bytes: length, most: LONGEST });
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Content::Text(text, stamp)),
        Err(e) => Err(ManifestError::NotText { path: path.to_owned(), at: e.utf8_error().valid_up_to() }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, FileTimes};

    use super::*;

    /// Makes a file that was last written an hour ago; its change time cannot be set.
    fn written(path: &Path, text: &str, ago: Duration) -> Stamp {
        fs::write(path, text).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.set_times(FileTimes::new().set_modified(SystemTime::now() - ago)).unwrap();
        Stamp::of(&file.metadata().unwrap())
    }

    #[test]
    fn a_stamp_counts_only_if_a_later_write_would_change_it() {
        let dir = tempfile::tempdir().unwrap();
        let stamp = written(&dir.path().join("a"), "text", Duration::from_secs(3600));
        let changed = SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(stamp.changed).unwrap());
        assert!(!stamp.is_settled(changed) && !stamp.is_settled(changed + SETTLED / 2));
        assert!(stamp.is_settled(changed + SETTLED));
        let of_the_future = Stamp { modified: stamp.changed + 3_600_000_000_000, ..stamp };
        assert!(!of_the_future.is_settled(changed + SETTLED));
    }

    #[test]
    fn a_file_is_not_read_again_while_its_stamp_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let stamp = written(&path, "one", Duration::from_secs(60));
        let text = |known| match read(&path, known).unwrap() {
            Content::Text(text, _) => Some(text),
            Content::AsBefore => None,
            Content::None => panic!("it is there"),
        };
        assert_eq!(text(Some(stamp)), None);
        assert_eq!(text(None).as_deref(), Some("one"));
        let other = written(&path, "two", Duration::from_secs(60));
        assert_ne!(stamp, other, "the change time is another one");
        assert_eq!(text(Some(stamp)).as_deref(), Some("two"));
        // Another file of that name, by a link or by a rename.
        fs::rename(&path, dir.path().join("target")).unwrap();
        std::os::unix::fs::symlink("target", &path).unwrap();
        written(&dir.path().join("target.new"), "six", Duration::from_secs(60));
        fs::rename(dir.path().join("target.new"), dir.path().join("target")).unwrap();
        assert_eq!(text(Some(other)).as_deref(), Some("six"));
        fs::remove_file(dir.path().join("target")).unwrap();
        assert!(read(&path, Some(other)).is_err(), "a link to nowhere");
        fs::remove_file(&path).unwrap();
        assert!(matches!(read(&path, Some(other)), Ok(Content::None)));
    }
}
