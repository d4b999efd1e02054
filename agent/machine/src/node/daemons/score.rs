//! `oom_score_adj` of one process.

use std::fs;
use std::io;
use std::path::PathBuf;

use nix::unistd::Pid;

use super::{DaemonError, place};

/// Sets it and returns the value before; `None` if it was right already or the process has ended.
///
/// # Errors
/// It cannot be read or set: lowering it needs CAP_SYS_RESOURCE (fs/proc/base.c, `__set_oom_adj`).
pub fn apply(pid: Pid, score: i32) -> Result<Option<i32>, DaemonError> {
    let path = PathBuf::from(format!("/proc/{pid}/oom_score_adj"));
    let text = match fs::read_to_string(&path) {
        Err(e) if is_gone(&e) => return Ok(None),
        text => text.map_err(|source| DaemonError::File { call: "read", path: path.clone(), source })?,
    };
    let text = text.trim_end();
    let Ok(from) = text.parse() else { return Err(DaemonError::ScoreText { path, text: text.to_owned() }) };
    if from == score {
        return Ok(None);
    }
    match fs::write(&path, score.to_string()) {
        Ok(()) => Ok(Some(from)),
        Err(e) if is_gone(&e) => Ok(None),
        Err(source) => Err(DaemonError::Score { pid, from, to: score, source }),
    }
}

/// The files of a process that has ended do not exist, or return ESRCH if they were open.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || place::is_gone(error)
}
