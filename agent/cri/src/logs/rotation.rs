//! Log rotation: renames a log that has become too large and limits the number of rotated files (kubelet
//! pkg/kubelet/logs/container_log_manager.go).
//!
//! `0.log` becomes `0.log.<time>`; at the next rotation that one is compressed to `0.log.<time>.gz`, and
//! files beyond the limit are removed, oldest first. A process that reads `0.log` meanwhile continues in the
//! renamed file.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::PermissionsExt;

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use nix::errno::Errno;

use super::files::{is_time, written};
use super::place::LogDir;
use super::{LogError, LogPath};

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

/// Plans the tidying of the log `name` in a directory with these names, so that `max_files` are left after
/// the rotation. Other names are ignored.
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
/// The first failed call; the other files are processed nevertheless. A rotated file that is not a regular
/// file fails to be compressed, and is removed when it is beyond the limit.
pub fn tidy(path: &LogPath, max_files: u32) -> Result<(), LogError> {
    let directory = match path.directory() {
        Err(error) if error.is_missing() => return Ok(()),
        directory => directory?,
    };
    let name = path.name().to_string_lossy();
    let names = directory.names(|own| own.starts_with(&*name))?;
    let tidying = tidying(&name, &names, max_files);
    let removed = tidying.remove.iter().map(OsStr::new).map(|name| match directory.unlink(name) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(LogError::at("unlink", &directory.path_of(name))(errno)),
    });
    let compressed = tidying.compress.iter().map(|name| compress(&directory, name));
    removed.chain(compressed).fold(Ok(()), Result::and)
}

/// Replaces the file `name` by `name.gz` with the same permissions and time. An incomplete file never has the
/// final name. Does nothing if the file does not exist.
fn compress(directory: &LogDir, name: &str) -> Result<(), LogError> {
    let (unfinished, compressed) = (format!("{name}{UNFINISHED}"), format!("{name}{COMPRESSED}"));
    let (unfinished, compressed) = (OsStr::new(&unfinished), OsStr::new(&compressed));
    let Some((source, facts)) = directory.open(OsStr::new(name))? else { return Ok(()) };
    let _ = directory.unlink(unfinished);
    let result = directory.create(unfinished).and_then(|target| {
        let mut encoder = GzEncoder::new(BufWriter::new(target), Compression::default());
        io::copy(&mut BufReader::new(source), &mut encoder)?;
        let target = encoder.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        target.set_permissions(fs::Permissions::from_mode(facts.st_mode & 0o777))?;
        std::os::unix::fs::fchown(&target, Some(facts.st_uid), Some(facts.st_gid))?;
        target.set_modified(written(&facts))?;
        directory.rename(unfinished, compressed, true)?;
        Ok(())
    });
    let result = match result {
        Ok(()) => directory.unlink(OsStr::new(name)).map_err(io::Error::from),
        Err(error) => {
            let _ = directory.unlink(unfinished);
            Err(error)
        }
    };
    result.map_err(LogError::at("compress", &directory.path_of(OsStr::new(name))))
}

/// Renames the log at `path`, adding the time. The runtime continues to write to the renamed file until it
/// reopens the log.
///
/// # Errors
/// The file does not exist, or the log was already rotated in this second.
pub fn move_away(path: &LogPath, now: Timestamp) -> Result<LogPath, LogError> {
    let time = Zoned::new(now, TimeZone::system()).strftime("%Y%m%d-%H%M%S").to_string();
    let mut name = OsString::from(path.name());
    name.push(format!(".{time}"));
    let moved = path.beside(&name);
    rename(path, &moved)?;
    Ok(moved)
}

/// Undoes [`move_away`] if the runtime could not be made to reopen the log.
///
/// # Errors
/// Another file exists by now, or it cannot be renamed.
pub fn move_back(moved: &LogPath, path: &LogPath) -> Result<(), LogError> {
    rename(moved, path)
}

/// Renames in the same directory, without replacing an existing file.
fn rename(from: &LogPath, to: &LogPath) -> Result<(), LogError> {
    let renamed = from.directory()?.rename(from.name(), to.name(), false);
    renamed.map_err(LogError::at("rename", &from.full()))
}

#[cfg(test)]
mod tests;
