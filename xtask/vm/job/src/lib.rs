//! What a guest is asked to do, and the lines in which it answers.
//!
//! Both sides share this: `nodewarden-vm` writes the job into the guest's memory file system and reads the
//! second serial port, `nodewarden-guest` reads the job and writes to that port.

#![deny(missing_docs)]

mod node;
mod tests_of_kernels;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use node::{
    ADDRESS, BootPlan, CONSOLE, GUESTS, HOST, NODE, NODE_DISK, NOTES, NodeJob, NodeState, POWER_OFF, ROOT,
};
pub use tests_of_kernels::{FILE_TESTS, KERNEL_TESTS, RUNTIME_TESTS, SYSTEMD_TESTS, V1_TESTS};

/// Where `xtask` puts the job in the initramfs.
pub const JOB_FILE: &str = "/job.json";
/// Where the programs are in the initramfs (`bin/`), an empty working directory (`work/`), and recorded
/// kubelet values where the tests look for them from there (`shared/golden/`).
pub const PROGRAMS: &str = "/nodewarden";
/// The serial number of the disk that has a Debian root, as `/sys/block/*/serial` shows it.
pub const ROOT_DISK: &str = "nodewarden-root";
/// The serial number of the disk that is mounted on /tmp.
pub const SCRATCH_DISK: &str = "nodewarden-scratch";

/// One guest's job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// How cgroups are mounted, and by whom.
    pub layout: Layout,
    /// What to do then.
    pub task: Task,
    /// For the tests: parts of names; all if none. For a bench or a soak test: its arguments, its name first.
    pub filters: Vec<String>,
    /// For tests and benches: the factor on every time-out.
    pub patience: u32,
    /// For the tests: how many that fail are run a second time.
    pub second_attempts: u32,
    /// Whether to report what each feature does on this kernel when the tests are done.
    pub features: bool,
    /// What is broken on purpose.
    pub fault: Fault,
}

/// The cgroup layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// One v2 tree with every controller, no init system.
    V2,
    /// Every v1 controller mounted apart, and systemd's named hierarchy; no init system.
    V1,
    /// A Debian root whose systemd mounts the v2 tree.
    Systemd,
}

/// What a guest does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Runs the end-to-end tests.
    Test,
    /// Runs a bench.
    Bench,
    /// Runs a soak test.
    Soak,
    /// A shell on the first serial port.
    Shell,
    /// The agent under its shipped unit, as a node of a cluster, until the machine is shut down or killed.
    Node,
    /// Nothing: boots and powers off.
    Noop,
}

/// A fault for the tests of the harness itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fault {
    /// None.
    None,
    /// The kernel panics (sysrq `c`).
    Panic,
    /// The machine's BTF gives a wrong offset for `sched_info.run_delay`.
    Offset,
    /// The guest never comes to its end.
    Hang,
}

/// What begins each line of ours on the second serial port; the others are the tests' own.
const PREFIX: &str = "nodewarden-guest: ";

/// A line of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// The machine has booted this kernel (`uname -r`) and the job begins.
    Started(String),
    /// A JSON object of `nodewarden-e2e --features`.
    Feature(String),
    /// A [`NodeState`] as JSON.
    Node(String),
    /// A record of the kernel's log that should not be there.
    Kernel(String),
    /// The job could not be done.
    Error(String),
    /// How long the job took by the guest's clock, in ms.
    Lasted(u64),
    /// The job is done, with the tests' exit status. Nothing follows.
    End(i32),
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        match self {
            Self::Started(release) => write!(f, "started {release}"),
            Self::Feature(json) => write!(f, "feature {json}"),
            Self::Node(json) => write!(f, "node {json}"),
            Self::Kernel(text) => write!(f, "kernel {text}"),
            // A mark is one line, whatever the error says.
            Self::Error(text) => write!(f, "error {}", text.replace('\n', " | ")),
            Self::Lasted(millis) => write!(f, "lasted {millis}"),
            Self::End(status) => write!(f, "end {status}"),
        }
    }
}

/// A line that is none of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoMark;

impl FromStr for Mark {
    type Err = NoMark;

    fn from_str(line: &str) -> Result<Self, NoMark> {
        let (word, rest) = line.strip_prefix(PREFIX).and_then(|mark| mark.split_once(' ')).ok_or(NoMark)?;
        match word {
            "started" => Ok(Self::Started(rest.to_owned())),
            "feature" => Ok(Self::Feature(rest.to_owned())),
            "node" => Ok(Self::Node(rest.to_owned())),
            "kernel" => Ok(Self::Kernel(rest.to_owned())),
            "error" => Ok(Self::Error(rest.to_owned())),
            "lasted" => rest.parse().map(Self::Lasted).map_err(|_| NoMark),
            "end" => rest.parse().map(Self::End).map_err(|_| NoMark),
            _ => Err(NoMark),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_back_as_written() {
        for mark in [
            Mark::Started("6.1.0-50-cloud-amd64".into()),
            Mark::Feature(r#"{"feature":"oom","state":"works","reason":""}"#.into()),
            Mark::Node(r#"{"agent":"active"}"#.into()),
            Mark::Lasted(1200),
            Mark::Kernel("WARNING: CPU: 0 PID: 1 at kernel/x.c:1".into()),
            Mark::Error("cannot mount x".into()),
            Mark::End(0),
            Mark::End(-1),
        ] {
            assert_eq!(mark.to_string().parse(), Ok(mark));
        }
        assert_eq!(Mark::Error("a\nb".into()).to_string(), "nodewarden-guest: error a | b");
    }

    #[test]
    fn other_lines_are_not_ours() {
        for line in [
            "",
            "test x ... ok",
            "nodewarden-guest: end",
            "nodewarden-guest: end x",
            " nodewarden-guest: end 0",
        ] {
            assert_eq!(line.parse::<Mark>(), Err(NoMark), "{line}");
        }
    }

    #[test]
    fn an_unknown_field_of_a_job_is_an_error() {
        let job = Job {
            layout: Layout::Systemd,
            task: Task::Test,
            filters: vec!["oom".into()],
            patience: 5,
            second_attempts: 1,
            features: true,
            fault: Fault::None,
        };
        let text = serde_json::to_string(&job).unwrap();
        assert!(text.contains(r#""layout":"systemd""#), "{text}");
        assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
        assert!(serde_json::from_str::<Job>(&text.replace("patience", "patients")).is_err());
    }
}
