//! Probes that run a command in the container (kubelet pkg/probe/exec, pkg/kubelet/prober `execInContainer`).

use std::time::Duration;

use super::{ProbeError, failure, success};
use crate::probes::Answer;
use crate::spec::Exec;
use nodewarden_cri::{Client, RuntimeError};

/// Runs commands, and can be checked for being reachable.
pub(super) trait Runtime: Exec + Send + 'static {
    fn answers(&self) -> impl Future<Output = bool> + Send;
}

impl Runtime for Client {
    async fn answers(&self) -> bool {
        self.version().await.is_ok()
    }
}

/// Runs the probe; exit status 0 is a success. The runtime enforces the time-out and kills the command; the
/// probe ends after that.
///
/// # Errors
/// The command could not be run: the program, the container or the runtime does not exist.
pub(super) async fn probe<R: Runtime>(
    runtime: &R,
    container: &str,
    command: &[String],
    limit: Duration,
) -> Result<Answer, ProbeError> {
    match runtime.execute(container, command, Some(limit)).await {
        Ok(done) if done.exit_code == 0 => Ok(success(&done.output)),
        Ok(done) => Ok(failure(&done.output)),
        // The runtime did not respond long after the time-out: it hangs, or it cannot kill the command.
        Err(source @ RuntimeError::TimedOut { .. }) if !runtime.answers().await => {
            Err(ProbeError::Silent { command: command.join(" "), source })
        }
        Err(error) if error.is_timed_out() => {
            Ok(failure(format!("command {:?} timed out", command.join(" ")).as_bytes()))
        }
        Err(source) => Err(ProbeError::Exec { command: command.join(" "), source }),
    }
}
