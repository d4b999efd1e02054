//! What is being packaged: version, commit and time.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::DistError;

/// The version of the workspace, which is written in its `Cargo.toml` and nowhere else.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How many digits of a commit are enough in a version.
const SHORT_COMMIT: usize = 12;

/// One state of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The workspace's version.
    pub version: String,
    /// The commit, in hexadecimal.
    pub commit: String,
    /// Whether the commit has the tag of its version.
    pub tagged: bool,
    /// Whether files differ from the commit.
    pub dirty: bool,
    /// The commit's time in seconds since 1970: the time of everything that is made.
    pub time: i64,
}

impl Release {
    /// The commit, shortened.
    pub fn short_commit(&self) -> &str {
        self.commit.get(..SHORT_COMMIT).unwrap_or(&self.commit)
    }

    /// The version of packages: that of the workspace, and what makes a build after its release newer.
    ///
    /// # Errors
    /// When the time is out of range.
    pub fn package_version(&self) -> Result<String, DistError> {
        if self.tagged && !self.dirty {
            return Ok(self.version.clone());
        }
        let zoned = self.timestamp()?.to_zoned(TimeZone::UTC);
        let dirty = if self.dirty { ".dirty" } else { "" };
        let (date, commit) = (zoned.strftime("%Y%m%d.%H%M%S"), self.short_commit());
        Ok(format!("{}+git{date}.{commit}{dirty}", self.version))
    }

    /// The time in the format of RFC 3339.
    ///
    /// # Errors
    /// When the time is out of range.
    pub fn rfc3339(&self) -> Result<String, DistError> {
        Ok(self.timestamp()?.to_string())
    }

    /// The day, such as 2026-11-22.
    ///
    /// # Errors
    /// When the time is out of range.
    pub fn day(&self) -> Result<String, DistError> {
        Ok(self.timestamp()?.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d").to_string())
    }

    /// The time as archives have it.
    ///
    /// # Errors
    /// When the time is before 1970.
    pub fn seconds(&self) -> Result<u64, DistError> {
        u64::try_from(self.time).map_err(|_| DistError::Time(self.time))
    }

    fn timestamp(&self) -> Result<Timestamp, DistError> {
        Timestamp::from_second(self.time).map_err(|_| DistError::Time(self.time))
    }
}

/// A release for tests.
#[cfg(test)]
pub(crate) fn example() -> Release {
    Release {
        version: "0.1.0".to_owned(),
        commit: "9af8bbfa543355993e4487a9dfa948d4584fb5e3".to_owned(),
        tagged: false,
        dirty: false,
        time: 1_795_483_167,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_after_a_release_has_a_newer_version() {
        let build = example();
        assert_eq!(build.package_version().unwrap(), "0.1.0+git20261124.011927.9af8bbfa5433");
        let tagged = Release { tagged: true, ..example() };
        assert_eq!(tagged.package_version().unwrap(), "0.1.0");
        let dirty = Release { tagged: true, dirty: true, ..example() };
        assert!(dirty.package_version().unwrap().ends_with(".dirty"));
    }

    #[test]
    fn times_are_those_of_the_commit() {
        assert_eq!(example().rfc3339().unwrap(), "2026-11-24T01:19:27Z");
        assert_eq!(example().day().unwrap(), "2026-11-24");
        assert!(Release { time: -1, ..example() }.seconds().is_err());
    }
}
