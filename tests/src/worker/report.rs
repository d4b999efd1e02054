//! The reports of workers, used by both sides. Times are in nanoseconds.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Ready {
    pub ready: u32,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    Code(i32),
    Signal(i32),
}

/// Times in which a process that always wants to run did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pauses {
    /// The longest.
    pub worst_ns: u64,
    /// All together.
    pub total_ns: u64,
    /// How many.
    pub count: u64,
    /// For how long it was looked.
    pub in_ns: u64,
}

/// Mean nanoseconds per open: for each cgroup, one value per round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    pub nanoseconds: Vec<Vec<f64>>,
}

/// A process that the OOM killer killed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Victim {
    pub pid: u32,
    /// The worker's child (1) or grandchild (2).
    pub depth: u32,
    /// When its parent's `waitpid` returned, since 1970.
    pub seen_dead_ns: u64,
}

impl Victim {
    pub fn seen_dead(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.seen_dead_ns)
    }
}

/// By how much a worker's scheduling statistics grew while it worked.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Scheduled {
    pub on_cpu_ns: u64,
    /// Runnable but waiting for a CPU.
    pub waited_ns: u64,
    /// The same two since the worker started.
    pub on_cpu_in_all_ns: u64,
    pub waited_in_all_ns: u64,
}

/// How long a worker waited for a CPU after each wake-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pulsed {
    pub waited_ns: Vec<u64>,
}

/// What a worker did with its children. The worker itself is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processed {
    pub forks: u64,
    pub execs: u64,
    pub exits: u64,
    pub signal_exits: u64,
}

/// How many children were forked until the kernel refused one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    pub forked: u64,
    /// The errno of the refused fork; 0 if none was refused.
    pub errno: i32,
}

/// A process that ended, with its pid in the reporter's pid namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub pid: u32,
    pub end: End,
}

/// How long some work took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Took {
    pub took_ns: u64,
}

/// Bytes and messages moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    pub count: u64,
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Port {
    pub port: u16,
}

/// How the agent answered a call by another user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Asked {
    /// The call was answered.
    Answered,
    /// The socket could not be connected to.
    NotConnected(String),
    /// The call was refused or cut off.
    Refused(String),
}

/// A setting that the ledger writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LedgerValue {
    /// Of which pod; empty for a daemon.
    pub pod: String,
    /// The cgroup's directory, or `/proc/PID`.
    pub directory: PathBuf,
    pub file: String,
    /// In the form in which the kernel shows it.
    pub value: String,
}

/// What is done with the ledger of mode augment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LedgerAct {
    /// All of these are written.
    Write(Vec<LedgerValue>),
    /// What was written for this pod is put back.
    Withdraw { pod: String },
    /// Everything is put back.
    WithdrawAll,
}
