//! CRI calls that run a command in a container.

use std::time::Duration;

use nodewarden_proto::runtime::v1 as cri;

use super::containers::whole_seconds;
use super::{Client, RuntimeError};

/// Result of a command in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOutput {
    /// The exit code; 128 plus the signal's number if a signal ended the command.
    pub exit_code: i32,
    /// What the command wrote to stdout.
    pub stdout: Vec<u8>,
    /// What the command wrote to stderr.
    pub stderr: Vec<u8>,
}

impl Client {
    /// Runs a command in a container and waits for its end. After `limit`, in whole seconds rounded up, the
    /// runtime kills it; without a limit it may run forever.
    ///
    /// # Errors
    /// [`RuntimeError::is_timed_out`] after the limit; other errors if the command could not be started.
    pub async fn exec_sync(
        &self,
        id: &str,
        command: &[String],
        limit: Option<Duration>,
    ) -> Result<ExecOutput, RuntimeError> {
        let mut service = self.service.clone();
        let request = cri::ExecSyncRequest {
            container_id: id.to_owned(),
            cmd: command.to_vec(),
            timeout: limit.map_or(0, |limit| whole_seconds(limit).max(1)),
        };
        // As in `remoteRuntimeService.ExecSync` of the kubelet.
        let wait = limit.map(|limit| limit.saturating_add(self.request_limit));
        let answer = self.call("ExecSync", id, wait, service.exec_sync(request)).await?;
        Ok(ExecOutput { exit_code: answer.exit_code, stdout: answer.stdout, stderr: answer.stderr })
    }

    /// The URL of the runtime's streaming server for this command: `http://127.0.0.1:40000/exec/<token>`. The
    /// command starts when a client connects. The URL is valid for one connection within about a minute.
    pub async fn exec_url(&self, request: cri::ExecRequest) -> Result<String, RuntimeError> {
        const CALL: &str = "Exec";
        let id = request.container_id.clone();
        let mut service = self.service.clone();
        let answer = self.call(CALL, &id, Some(self.request_limit), service.exec(request)).await?;
        if answer.url.is_empty() {
            return Err(self.empty(CALL, &id, "url"));
        }
        Ok(answer.url)
    }

    /// The URL of the runtime's streaming server for the streams of a running container, valid as that of
    /// [`exec_url`].
    ///
    /// [`exec_url`]: Self::exec_url
    pub async fn attach_url(&self, request: cri::AttachRequest) -> Result<String, RuntimeError> {
        const CALL: &str = "Attach";
        let id = request.container_id.clone();
        let mut service = self.service.clone();
        let answer = self.call(CALL, &id, Some(self.request_limit), service.attach(request)).await?;
        if answer.url.is_empty() {
            return Err(self.empty(CALL, &id, "url"));
        }
        Ok(answer.url)
    }

    /// The URL of the runtime's streaming server for ports of a sandbox, valid as that of [`exec_url`].
    ///
    /// [`exec_url`]: Self::exec_url
    pub async fn port_forward_url(&self, sandbox: &str, ports: &[i32]) -> Result<String, RuntimeError> {
        const CALL: &str = "PortForward";
        let request = cri::PortForwardRequest { pod_sandbox_id: sandbox.to_owned(), port: ports.to_vec() };
        let mut service = self.service.clone();
        let answer =
            self.call(CALL, sandbox, Some(self.request_limit), service.port_forward(request)).await?;
        if answer.url.is_empty() {
            return Err(self.empty(CALL, sandbox, "url"));
        }
        Ok(answer.url)
    }
}
