//! What the kernel says that threads may do (`/proc/PID/task/TID/status`, proc_pid_status(5)).

use std::fs;
use std::path::Path;

use super::capability::CapabilitySet;
use super::error::PrivilegesError;

/// What a thread may do, or all threads of a process together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// `CapPrm` and `CapInh` and `CapAmb`: what it can use, and what it could give to programs that it
    /// starts.
    pub permitted: CapabilitySet,
    /// `CapEff`: what it uses.
    pub effective: CapabilitySet,
    /// `CapBnd`: the most that a program that it starts can have.
    pub bounding: CapabilitySet,
    /// `NoNewPrivs`: programs that it starts get no privileges by their files.
    pub no_new_privileges: bool,
    /// `Seccomp` is 2: a filter decides on its system calls.
    pub filtered: bool,
}

impl Held {
    /// Reads the text of a file `status`; `None` if a line is missing, as for a thread that has ended.
    pub fn parse(text: &str) -> Option<Self> {
        let value = |key: &str| {
            text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
        };
        let set = |key| CapabilitySet::from_hex(value(key)?);
        Some(Self {
            // Before Linux 4.3 there is no ambient set.
            permitted: set("CapPrm")?.or(set("CapInh")?).or(set("CapAmb").unwrap_or_default()),
            effective: set("CapEff")?,
            bounding: set("CapBnd")?,
            // Before Linux 4.10 there is no such line.
            no_new_privileges: value("NoNewPrivs").is_some_and(|text| text == "1"),
            filtered: value("Seccomp").is_some_and(|text| text == "2"),
        })
    }

    /// What one of two has, and whether both are restricted.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            permitted: self.permitted.or(other.permitted),
            effective: self.effective.or(other.effective),
            bounding: self.bounding.or(other.bounding),
            no_new_privileges: self.no_new_privileges && other.no_new_privileges,
            filtered: self.filtered && other.filtered,
        }
    }

    /// What the threads of a process have together, by the directory `task` of `/proc/PID`.
    ///
    /// # Errors
    /// The directory cannot be read. Threads that end meanwhile are left out.
    pub fn of_threads(tasks: &Path) -> Result<Self, PrivilegesError> {
        let all = threads(tasks)?;
        Ok(all.into_iter().map(|(_, held)| held).reduce(Self::with).unwrap_or_default())
    }
}

/// What each thread of a process has, by its id.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn threads(tasks: &Path) -> Result<Vec<(i32, Held)>, PrivilegesError> {
    let failed = |source| PrivilegesError::Read { path: tasks.to_owned(), source };
    let mut all = Vec::new();
    for entry in fs::read_dir(tasks).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended since.
        let text = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        all.extend(Held::parse(&text).map(|held| (thread, held)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tserve\nState:\tS (sleeping)\nCapInh:\t0000000000000001\nCapPrm:\t000001ffffffffff\n\
                          CapEff:\t0000008000000000\nCapBnd:\t000001ffffffffff\nCapAmb:\t0000000000000000\n\
                          NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";

    #[test]
    fn a_status_is_read() {
        let held = Held::parse(STATUS).unwrap();
        assert_eq!(held.effective.to_string(), "CAP_BPF");
        assert_eq!(
            (held.permitted, held.bounding),
            (CapabilitySet(0x1ff_ffff_ffff), CapabilitySet(0x1ff_ffff_ffff))
        );
        assert!(held.no_new_privileges && held.filtered);
        assert_eq!(Held::parse(""), None);
    }

    #[test]
    fn one_thread_that_may_more_is_seen() {
        let held = Held::parse(STATUS).unwrap();
        let free = Held { effective: CapabilitySet(1), filtered: false, ..held };
        let both = held.with(free);
        assert_eq!(both.effective.to_string(), "CAP_CHOWN, CAP_BPF");
        assert!(both.no_new_privileges && !both.filtered);
    }

    #[test]
    fn this_process_has_threads() {
        let own = Held::of_threads(Path::new("/proc/self/task")).unwrap();
        assert_eq!(own.effective.without(own.permitted), CapabilitySet::default());
        assert!(Held::of_threads(Path::new("/nonexistent")).is_err());
    }
}
