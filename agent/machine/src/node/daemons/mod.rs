//! The cgroups of the daemons that run next to the pods (the kubelet's
//! pkg/kubelet/cm/container_manager_linux.go): the agent itself (`kubeletCgroups`, `oomScoreAdj`), the
//! container runtime (`runtimeCgroups`) and everything else that is in no cgroup of its own
//! (`systemCgroups`).
//!
//! - [`Daemons::ensure`] checks all and corrects what differs; the kubelet does so each minute.
//! - `to_move` decides which processes of the root cgroup go to `systemCgroups`: never kernel threads.
//!
//! Only `cgroup.procs` of the given directories and `oom_score_adj` of the agent and the runtime are written.

mod error;
mod place;
mod process;
mod runtime;
mod score;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use nix::unistd::Pid;

pub use error::DaemonError;
pub use place::Place;
use process::to_move;
pub use runtime::find as find_runtime;

/// `oom_score_adj` of the container runtime: the kubelet's `dockerOOMScoreAdj`.
pub const RUNTIME_SCORE: i32 = -999;

/// Maximum number of passes, because processes may be started during one (`ensureSystemCgroups` in the
/// kubelet).
const ROUNDS: u32 = 10;

/// The cgroups and `oom_score_adj` that the daemons should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemons {
    /// `oom_score_adj` of the agent.
    pub agent_score: i32,
    /// `kubeletCgroups`.
    pub agent: Option<Place>,
    /// `runtimeCgroups`.
    pub runtime: Option<Runtime>,
    /// `systemCgroups`.
    pub system: Option<System>,
}

/// The container runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Its CRI socket.
    pub socket: PathBuf,
    /// The cgroup for its processes.
    pub place: Place,
}

/// The processes that are in no cgroup of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// The root cgroup of one hierarchy: on v1 the kubelet takes that of `devices`.
    pub root: PathBuf,
    /// The cgroup for those processes.
    pub place: Place,
}

/// What [`Daemons::ensure`] has changed, and what failed.
#[derive(Debug, Default)]
pub struct Report {
    /// Processes that were moved to another cgroup.
    pub moved: Vec<Moved>,
    /// Processes whose `oom_score_adj` was changed.
    pub adjusted: Vec<Adjusted>,
    /// What failed; it is tried again by the next call.
    pub problems: Vec<DaemonError>,
}

/// A process that was moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The process.
    pub pid: Pid,
    /// Its `comm`.
    pub name: String,
    /// The first directory of the place.
    pub to: PathBuf,
}

/// A process whose `oom_score_adj` was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adjusted {
    /// The process.
    pub pid: Pid,
    /// Its `comm`.
    pub name: String,
    /// The value before.
    pub from: i32,
    /// The value now.
    pub to: i32,
}

impl Daemons {
    /// Moves every daemon into its cgroup. Failures are reported and never fatal; the next call tries again.
    /// Blocks while it connects to the runtime's socket.
    pub fn ensure(&self) -> Report {
        self.ensure_for(Pid::this())
    }

    fn ensure_for(&self, agent: Pid) -> Report {
        let mut report = Report::default();
        report.settle(agent, self.agent.as_ref(), self.agent_score);
        if let Some(runtime) = &self.runtime {
            match runtime::find(&runtime.socket) {
                Ok(pids) => {
                    for pid in pids {
                        report.settle(pid, Some(&runtime.place), RUNTIME_SCORE);
                    }
                }
                Err(problem) => report.problems.push(problem),
            }
        }
        if let Some(system) = &self.system {
            report.empty_root(system);
        }
        report
    }
}

impl Report {
    /// Whether anything was done.
    pub fn is_change(&self) -> bool {
        !self.moved.is_empty() || !self.adjusted.is_empty()
    }

    /// Puts one process into `place`, if there is one, and gives it its `oom_score_adj`.
    fn settle(&mut self, pid: Pid, place: Option<&Place>, score: i32) {
        if let Some(place) = place {
            self.enter(pid, place);
        }
        match score::apply(pid, score) {
            Ok(Some(from)) => {
                self.adjusted.push(Adjusted { pid, name: process::name(pid), from, to: score });
            }
            Ok(None) => {}
            Err(problem) => self.problems.push(problem),
        }
    }

    fn enter(&mut self, pid: Pid, place: &Place) {
        match place.enter(pid) {
            Ok(true) => {
                let to = place.directories().first().cloned().unwrap_or_default();
                self.moved.push(Moved { pid, name: process::name(pid), to });
            }
            Ok(false) => {}
            Err(problem) => self.problems.push(problem),
        }
    }

    /// Moves the processes that may be moved out of the root cgroup. A process can fork while it is moved, so
    /// this is repeated; only the failures of the last round are reported.
    fn empty_root(&mut self, system: &System) {
        let before = self.problems.len();
        for _ in 0..ROUNDS {
            self.problems.truncate(before);
            let processes = match process::members(&system.root) {
                Ok(processes) => processes,
                Err(problem) => return self.problems.push(problem),
            };
            let pids = to_move(&processes);
            let moved = self.moved.len();
            for pid in &pids {
                self.enter(*pid, &system.place);
            }
            // Nothing left, or nothing that can be moved.
            if self.moved.len() == moved {
                return;
            }
        }
    }
}
