//! A cgroup's name, which does not depend on the driver, and the path that each driver gives to it.
//!
//! The conversions are the kubelet's (pkg/kubelet/cm/cgroup_manager_linux.go): on cgroupfs the parts are the
//! directories; under systemd each part's `-` becomes `_`, since systemd reads `-` in a slice's name as its
//! place in the tree (systemd.slice(5)), and the slice's own directory lies in those of all its parents.

use std::fmt;

use thiserror::Error;

/// Ends the name of every systemd slice.
const SLICE: &str = ".slice";

/// The longest name of a directory, and so of a cgroup, in bytes (NAME_MAX).
const LONGEST_PART: usize = 255;

/// The parts of a cgroup's name below the root: `["kubepods", "burstable", "pod<uid>"]` (the kubelet's
/// `CgroupName`). The root has no parts. Every part is valid as a directory's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct CgroupName(Vec<String>);

/// A name that no cgroup can have.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NameError {
    /// A part has no characters, as between the two slashes of `/a//b`.
    #[error("the cgroup name {name:?} has an empty part")]
    EmptyPart {
        /// The part: empty.
        name: String,
    },
    /// A part is `.` or `..`.
    #[error("the part {part:?} of a cgroup name means another directory")]
    Dots {
        /// The part.
        part: String,
    },
    /// A part contains `/`, a newline or a NUL.
    #[error("the part {part:?} of a cgroup name contains {found:?}")]
    Character {
        /// The part.
        part: String,
        /// The first such character.
        found: char,
    },
    /// A part is longer than the name of a directory may be.
    #[error("the part {part:?} of a cgroup name is longer than {LONGEST_PART} bytes")]
    TooLong {
        /// The part.
        part: String,
    },
    /// A path of the cgroupfs driver does not begin with `/`.
    #[error("the cgroup path {path:?} does not begin with /")]
    NotAbsolute {
        /// The path.
        path: String,
    },
    /// A path of the systemd driver does not end in `.slice`, or its directories are not the parents that the
    /// slice's name gives.
    #[error("{path:?} is not where systemd puts the slice of its last part ({expected:?})")]
    NotASlice {
        /// The path.
        path: String,
        /// The path that systemd gives to the slice, or the name with `.slice` at its end.
        expected: String,
    },
}

impl CgroupName {
    /// The root of the hierarchy.
    pub const fn root() -> Self {
        Self(Vec::new())
    }

    /// The name with these parts.
    ///
    /// # Errors
    /// When one of them is empty, `.`, `..`, longer than 255 bytes, or has a `/`, a newline or a NUL in it.
    pub fn new<P: Into<String>>(parts: impl IntoIterator<Item = P>) -> Result<Self, NameError> {
        Self::root().join(parts)
    }

    /// This name with more parts (the kubelet's `NewCgroupName`). `_` is allowed although
    /// [`Self::from_systemd_path`] reads it as `-`, which is why the kubelet forbids it in the names that it
    /// creates.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn join<P: Into<String>>(&self, parts: impl IntoIterator<Item = P>) -> Result<Self, NameError> {
        let mut all = self.0.clone();
        for part in parts {
            all.push(checked(part.into())?);
        }
        Ok(Self(all))
    }

    /// This name with one more part.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn child(&self, part: impl Into<String>) -> Result<Self, NameError> {
        self.join([part])
    }

    /// The parts, from the root down.
    pub fn parts(&self) -> &[String] {
        &self.0
    }

    /// The last part; `None` for the root.
    pub fn last(&self) -> Option<&str> {
        self.0.last().map(String::as_str)
    }

    /// Name of the parent cgroup; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        let (_, parents) = self.0.split_last()?;
        Some(Self(parents.to_vec()))
    }

    /// Whether it is the root: a name without parts.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is `other` or below it.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// The path below the mounts under the cgroupfs driver (`ToCgroupfs`): `/kubepods/burstable/pod<uid>`.
    pub fn cgroupfs_path(&self) -> String {
        format!("/{}", self.0.join("/"))
    }

    /// The name of a path under the cgroupfs driver (`ParseCgroupfsToCgroupName`), also of `cgroupRoot`,
    /// which the kubelet reads the same way under either driver. A `/` at the end, from which the kubelet
    /// would get another, empty part, is ignored.
    ///
    /// # Errors
    /// As [`Self::new`], and when it does not begin with `/`.
    pub fn from_cgroupfs_path(path: &str) -> Result<Self, NameError> {
        let below = path.strip_prefix('/').ok_or_else(|| NameError::NotAbsolute { path: path.to_owned() })?;
        match below.strip_suffix('/').unwrap_or(below) {
            "" => Ok(Self::root()),
            below => Self::new(below.split('/')),
        }
    }

    /// The path below the mounts under the systemd driver (`ToSystemd`):
    /// `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid with _>.slice`.
    pub fn systemd_path(&self) -> String {
        if self.is_root() {
            return "/".to_owned();
        }
        let mut path = String::new();
        let mut slice = String::new();
        for part in &self.0 {
            if !slice.is_empty() {
                slice.push('-');
            }
            slice.push_str(&escape(part));
            path.push('/');
            path.push_str(&slice);
            path.push_str(SLICE);
        }
        path
    }

    /// The name of a slice's path under the systemd driver, or of its last part alone
    /// (`ParseSystemdToCgroupName`). Every `_` becomes a `-`.
    ///
    /// Unlike the kubelet's function, which accepts any text, it refuses what is not a slice, and it reads
    /// `-.slice` as the root.
    ///
    /// # Errors
    /// As [`Self::new`], and when the path is not the one that systemd gives to the slice.
    pub fn from_systemd_path(path: &str) -> Result<Self, NameError> {
        if matches!(path, "/" | "-.slice" | "/-.slice") {
            return Ok(Self::root());
        }
        let slice = path.rsplit('/').next().unwrap_or_default();
        let not_a_slice = |expected: String| NameError::NotASlice { path: path.to_owned(), expected };
        let Some(stem) = slice.strip_suffix(SLICE) else {
            return Err(not_a_slice(format!("{slice}{SLICE}")));
        };
        let name = Self::new(stem.split('-').map(unescape))?;
        let expected = name.systemd_path();
        // `_` was read as `-`; both are written as `_` in the expected path.
        if path != slice && path != expected {
            return Err(not_a_slice(expected));
        }
        Ok(name)
    }
}

/// As the kubelet logs it: `[kubepods burstable]`.
impl fmt::Display for CgroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.0.join(" "))
    }
}

fn checked(part: String) -> Result<String, NameError> {
    if part.is_empty() {
        return Err(NameError::EmptyPart { name: part });
    }
    if part == "." || part == ".." {
        return Err(NameError::Dots { part });
    }
    // The kernel refuses a newline: it would make two lines of one in /proc/<pid>/cgroup.
    if let Some(found) = part.chars().find(|c| matches!(c, '/' | '\n' | '\0')) {
        return Err(NameError::Character { part, found });
    }
    if part.len() > LONGEST_PART {
        return Err(NameError::TooLong { part });
    }
    Ok(part)
}

/// `escapeSystemdCgroupName`.
fn escape(part: &str) -> String {
    part.replace('-', "_")
}

/// `unescapeSystemdCgroupName`.
fn unescape(part: &str) -> String {
    part.replace('_', "-")
}

#[cfg(test)]
mod tests;
