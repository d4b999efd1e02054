//! A command in the container (kubelet pkg/probe/exec, pkg/kubelet/prober `execInContainer`).

use std::time::Duration;

use super::{ProbeError, failure, success};
use crate::probes::Answer;
use crate::spec::Exec;
use nodewarden_cri::{Client, RuntimeError};

/// Who runs commands, and can be asked whether it is there at all.
pub(super) trait Runtime: Exec + Send + 'static {
    fn answers(&self) -> impl Future<Output = bool> + Send;
}

impl Runtime for Client {
    async fn answers(&self) -> bool {
        self.version().await.is_ok()
    }
}

/// Status 0 is a success. The runtime keeps the time: it kills what takes longer, and only then is the probe over.
///
/// # Errors
/// The command could not be run: no such program, no such container, no runtime.
pub(super) async fn probe<R: Runtime>(
    runtime: &R,
    container: &str,
    command: &[String],
    limit: Duration,
) -> Result<Answer, ProbeError> {
    match runtime.execute(container, command, Some(limit)).await {
        Ok(done) if done.exit_code == 0 => Ok(success(&done.output)),
        Ok(done) => Ok(failure(&done.output)),
        // No word from the runtime long after the time was over: it hangs, or it cannot kill the command.
        Err(source @ RuntimeError::TimedOut { .. }) if !runtime.answers().await => {
            Err(ProbeError::Silent { command: command.join(" "), source })
        }
        Err(error) if error.is_timed_out() => {
            Ok(failure(format!("command {:?} timed out", command.join(" ")).as_bytes()))
        }
        Err(source) => Err(ProbeError::Exec { command: command.join(" "), source }),
    }
}
