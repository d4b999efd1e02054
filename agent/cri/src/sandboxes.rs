//! CRI calls for pod sandboxes.

use std::io;
use std::sync::Arc;

use nodewarden_proto::runtime::v1 as cri;
use nodewarden_tasks::blocking;
use tracing::warn;

use super::client::gone_is_well;
use super::{Client, RuntimeError, cni_results};

impl Client {
    /// Creates and starts a sandbox; returns its id. The time limit is doubled as in the kubelet
    /// (`remoteRuntimeService.RunPodSandbox`), because a network may have to be set up.
    ///
    /// An interrupted call may have created the sandbox nevertheless: a listing by its labels finds it.
    pub async fn run_sandbox(&self, config: cri::PodSandboxConfig) -> Result<String, RuntimeError> {
        self.run_sandbox_with(config, "").await
    }

    /// As [`Self::run_sandbox`], with the runtime's handler that a runtime class names; empty for its
    /// default.
    pub async fn run_sandbox_with(
        &self,
        config: cri::PodSandboxConfig,
        handler: &str,
    ) -> Result<String, RuntimeError> {
        const CALL: &str = "RunPodSandbox";
        let about = config
            .metadata
            .as_ref()
            .map(|m| format!("{}/{} ({})", m.namespace, m.name, m.uid))
            .unwrap_or_default();
        let mut service = self.service.clone();
        let request = cri::RunPodSandboxRequest { config: Some(config), runtime_handler: handler.to_owned() };
        let limit = Some(self.request_limit.saturating_mul(2));
        let answer = self.call(CALL, &about, limit, service.run_pod_sandbox(request)).await?;
        if answer.pod_sandbox_id.is_empty() {
            return Err(self.empty(CALL, &about, "pod sandbox id"));
        }
        Ok(answer.pod_sandbox_id)
    }

    /// Kills the containers of the sandbox and releases its network. Succeeds if the sandbox does not exist.
    ///
    /// If the runtime refuses because a power loss has left a result of the network plugins unreadable, that
    /// file is removed and the call repeated.
    pub async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let error = match self.stop_sandbox_once(id).await {
            Err(error) if cni_results::is_why(&error) => error,
            ended => return ended,
        };
        let (directory, sandbox) = (Arc::clone(&self.cni_results), id.to_owned());
        let remove = move || cni_results::remove_unreadable(&directory, &sandbox);
        match blocking::TIDYING.run(remove).await.map_err(io::Error::other).flatten() {
            Ok(removed) if removed.is_empty() => Err(error),
            Ok(removed) => {
                warn!(
                    "{error}. {removed:?} could not be read (a power loss leaves such files) and was removed; \
                     stopping the sandbox again"
                );
                self.stop_sandbox_once(id).await
            }
            Err(problem) => {
                let directory = self.cni_results.display();
                warn!("{error}. Looking for network results that cannot be read in {directory}: {problem}");
                Err(error)
            }
        }
    }

    async fn stop_sandbox_once(&self, id: &str) -> Result<(), RuntimeError> {
        let mut service = self.service.clone();
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let answer = service.stop_pod_sandbox(request);
        gone_is_well(self.call("StopPodSandbox", id, Some(self.request_limit), answer).await)
    }

    /// Removes the sandbox and its containers; containerd stops it first if necessary. Succeeds if the
    /// sandbox does not exist.
    pub async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let mut service = self.service.clone();
        let request = cri::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let answer = service.remove_pod_sandbox(request);
        gone_is_well(self.call("RemovePodSandbox", id, Some(self.request_limit), answer).await)
    }

    /// State, addresses and labels of a sandbox.
    ///
    /// # Errors
    /// [`RuntimeError::is_not_found`] if it does not exist.
    pub async fn sandbox_status(&self, id: &str) -> Result<cri::PodSandboxStatus, RuntimeError> {
        const CALL: &str = "PodSandboxStatus";
        let mut service = self.service.clone();
        let request = cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        let answer = self.ask(CALL, id, service.pod_sandbox_status(request)).await?;
        answer.status.ok_or_else(|| self.empty(CALL, id, "status"))
    }
}
