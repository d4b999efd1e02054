//! The cgroup controllers that the agent uses, and their names in each version.

use std::fmt;

/// The version of a hierarchy's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// A v1 hierarchy: one mount per controller or group of controllers.
    V1,
    /// The unified hierarchy.
    V2,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

/// A controller that the agent uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::EnumIter, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Controller {
    /// CPU shares (weight) and CFS quota.
    Cpu,
    /// CPU accounting: a controller of its own on v1; on v2 every cgroup has `cpu.stat`.
    CpuAcct,
    /// Memory limits and usage, OOM kills.
    Memory,
    /// The number of tasks.
    Pids,
    /// `blkio` on v1, `io` on v2.
    #[strum(serialize = "blkio")]
    Io,
    /// The CPUs and memory nodes that tasks may use.
    Cpuset,
    /// Limits of huge pages.
    Hugetlb,
}

impl Controller {
    /// Its name among a v1 mount's options and in `/proc/<pid>/cgroup`.
    pub fn v1_name(self) -> &'static str {
        self.into()
    }

    /// Its name in v2's `cgroup.controllers`; `None` where v2 needs no controller for it.
    pub fn v2_name(self) -> Option<&'static str> {
        match self {
            Self::CpuAcct => None,
            Self::Io => Some("io"),
            other => Some(other.v1_name()),
        }
    }

    /// Whether the agent cannot work without it.
    pub fn required(self) -> bool {
        matches!(self, Self::Cpu | Self::Memory)
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.v1_name())
    }
}
