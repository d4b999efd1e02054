//! Protection of the node's daemons: pure.

use std::path::{Path, PathBuf};

use crate::ledger::Entry;
use crate::table::FOREIGN_PROCESSES;
use crate::wanted::{Feature, Level, Place, Wanted};

/// The cgroup of a daemon, or one above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonGroup {
    /// Its directory in the hierarchy of the memory controller.
    pub directory: PathBuf,
    /// How many protected daemons are in it or below.
    pub daemons: u64,
}

/// A process in a daemon's cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its command name.
    pub command: String,
    /// `oom_score_adj`.
    pub score: i32,
}

/// What is wanted for the daemons: no process has a higher `oom_score_adj` than `most`, and each daemon keeps
/// `memory` bytes, for which the cgroups above have to keep as much. Nothing is ever protected less than it
/// is.
pub fn wanted(groups: &[DaemonGroup], processes: &[Process], most: i32, memory: u64) -> Vec<Wanted> {
    let of_daemon = |directory: &Path, level, file, value, instead_of| Wanted {
        feature: Feature::Protection,
        level,
        place: Place::new(directory, file),
        value,
        instead_of,
        companion: None,
        pod: String::new(),
    };
    let is_foreign = |process: &&Process| {
        !FOREIGN_PROCESSES.iter().any(|beginning| process.command.starts_with(beginning))
    };
    let scores = processes.iter().filter(|process| process.score > most).filter(is_foreign).map(|process| {
        let directory = PathBuf::from(format!("/proc/{}", process.pid));
        of_daemon(&directory, Level::Process, "oom_score_adj", most.to_string(), &[])
    });
    let memory = groups.iter().filter(|_| memory > 0).map(|group| {
        let bytes = page_multiple(memory.saturating_mul(group.daemons));
        // Who has set one already knows better.
        of_daemon(&group.directory, Level::Daemon, "memory.min", bytes.to_string(), &["0"])
    });
    memory.chain(scores).collect()
}

/// What is written for a process is still wanted.
pub fn kept(entry: &Entry) -> Wanted {
    Wanted {
        feature: Feature::Protection,
        level: Level::Process,
        place: entry.place.clone(),
        value: entry.value().to_owned(),
        instead_of: &[],
        companion: None,
        pod: String::new(),
    }
}

/// The kernel keeps whole pages, of at most 64 KiB.
fn page_multiple(bytes: u64) -> u64 {
    bytes.saturating_add(0xffff) & !0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, command: &str, score: i32) -> Process {
        Process { pid, command: command.into(), score }
    }

    #[test]
    fn scores_are_only_lowered_and_never_those_that_the_runtime_writes() {
        let processes = [
            process(1, "kubelet", -999),
            process(2, "containerd", 0),
            process(3, "containerd-shim", 1),
            process(4, "sshd", -1000),
            process(5, "runc:[2:INIT]", 900),
        ];
        let found = wanted(&[], &processes, -999, 1 << 20);
        let written: Vec<_> = found.iter().map(|own| (own.place.path(), &*own.value)).collect();
        assert_eq!(written, [(PathBuf::from("/proc/2/oom_score_adj"), "-999")]);
        assert_eq!(found[0].level, Level::Process);
    }

    #[test]
    fn the_cgroups_above_keep_as_much_as_the_daemons_below() {
        let group = |directory: &str, daemons| DaemonGroup { directory: directory.into(), daemons };
        let groups = [group("/c/system.slice", 2), group("/c/system.slice/a.service", 1)];
        let found = wanted(&groups, &[], -999, 100_000);
        let written: Vec<_> = found.iter().map(|own| &*own.value).collect();
        assert_eq!(written, ["262144", "131072"]);
        assert!(found.iter().all(|own| own.instead_of == ["0"] && own.place.file == "memory.min"));
        assert_eq!(wanted(&groups, &[], -999, 0), []);
    }
}
