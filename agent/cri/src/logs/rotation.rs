//! Log rotation: renames a log that has become too large and limits the number of rotated files (kubelet
//! pkg/kubelet/logs/container_log_manager.go).
//!
//! `0.log` becomes `0.log.<time>`; at the next rotation that one is compressed to `0.log.<time>.gz`, and files beyond
//! the limit are removed, oldest first. A process that reads `0.log` meanwhile continues in the renamed file.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use super::LogError;
use super::files::{is_time, names};

const COMPRESSED: &str = ".gz";
const UNFINISHED: &str = ".tmp";
/// Number of files in addition to the older rotated ones: the current one and the newest rotated one.
const OTHERS: u32 = 2;

/// The file names to remove and compress before a log is rotated, oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tidying {
    remove: Vec<String>,
    compress: Vec<String>,
}

/// Plans the tidying of the log `name` in a directory with these names, so that `max_files` are left after the rotation.
/// Other names are ignored.
fn tidying(name: &str, names: &[String], max_files: u32) -> Tidying {
    let stem = |own: &str| -> Option<String> {
        let rest = own.strip_prefix(name)?.strip_prefix('.')?;
        let time = rest.strip_suffix(UNFINISHED).unwrap_or(rest);
        is_time(time.strip_suffix(COMPRESSED).unwrap_or(time)).then(|| own.to_owned())
    };
    let own: BTreeSet<String> = names.iter().filter_map(|name| stem(name)).collect();
    let is_left_over =
        |one: &String| one.ends_with(UNFINISHED) || own.contains(&format!("{one}{COMPRESSED}"));
    let (mut remove, kept): (Vec<String>, Vec<String>) = own.iter().cloned().partition(is_left_over);
    let most = usize::try_from(max_files.saturating_sub(OTHERS)).unwrap_or(usize::MAX);
    let (excess, rest) = kept.split_at(kept.len().saturating_sub(most));
    remove.extend_from_slice(excess);
    let compress = rest.iter().filter(|one| !one.ends_with(COMPRESSED)).cloned().collect();
    Tidying { remove, compress }
}

/// Removes and compresses rotated files of the log at `path`. Blocks while compressing.
///
/// # Errors
/// The first failed call; the other files are processed nevertheless.
pub fn tidy(path: &Path, max_files: u32) -> Result<(), LogError> {
    let (directory, name) = (path.parent().unwrap_or(Path::new("/")), path.file_name().unwrap_or_default());
    let tidying = tidying(&name.to_string_lossy(), &names(directory)?, max_files);
    let removed = tidying.remove.iter().map(|name| {
        let path = directory.join(name);
        fs::remove_file(&path).or_else(absent).map_err(LogError::at("unlink", &path))
    });
    let compressed = tidying.compress.iter().map(|name| {
        let path = directory.join(name);
        compress(&path).map_err(LogError::at("compress", &path))
    });
    removed.chain(compressed).fold(Ok(()), Result::and)
}

fn absent(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Replaces `path` by `path.gz` with the same permissions and time. An incomplete file never has the final name.
fn compress(path: &Path) -> io::Result<()> {
    let to = |suffix: &str| PathBuf::from(format!("{}{suffix}", path.display()));
    let (unfinished, compressed) = (to(UNFINISHED), to(COMPRESSED));
    let source = File::open(path)?;
    let facts = source.metadata()?;
    let _ = fs::remove_file(&unfinished);
    let result =
        File::options().write(true).create_new(true).mode(0o600).open(&unfinished).and_then(|target| {
            let mut encoder = GzEncoder::new(BufWriter::new(target), Compression::default());
            io::copy(&mut BufReader::new(source), &mut encoder)?;
            let target = encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
            target.set_permissions(fs::Permissions::from_mode(facts.mode()))?;
            std::os::unix::fs::fchown(&target, Some(facts.uid()), Some(facts.gid()))?;
            target.set_modified(facts.modified()?)?;
            fs::rename(&unfinished, &compressed)
        });
    match result {
        Ok(()) => fs::remove_file(path),
        Err(error) => {
            let _ = fs::remove_file(&unfinished);
            Err(error)
        }
    }
}

/// Renames the log at `path`, adding the time. The runtime continues to write to the renamed file until it reopens the
/// log.
///
/// # Errors
/// The file does not exist, or the log was already rotated in this second.
pub fn move_away(path: &Path, now: Timestamp) -> Result<PathBuf, LogError> {
    let time = Zoned::new(now, TimeZone::system()).strftime("%Y%m%d-%H%M%S").to_string();
    let moved = PathBuf::from(format!("{}.{time}", path.display()));
    rename(path, &moved)?;
    Ok(moved)
}

/// Undoes [`move_away`] if the runtime could not be made to reopen the log.
///
/// # Errors
/// Another file exists by now, or it cannot be renamed.
pub fn move_back(moved: &Path, path: &Path) -> Result<(), LogError> {
    rename(moved, path)
}

/// Renames without replacing an existing file.
fn rename(from: &Path, to: &Path) -> Result<(), LogError> {
    let renamed = renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE);
    renamed.map_err(LogError::at("rename", from))
}

#[cfg(test)]
mod tests;
