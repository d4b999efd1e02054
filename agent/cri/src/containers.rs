//! CRI calls for containers.

use std::time::Duration;

use nodewarden_proto::runtime::v1 as cri;

use super::client::gone_is_well;
use super::{Client, RuntimeError};
use nodewarden_model::{HostDevice, HostDeviceKind};

impl Client {
    /// Creates a container in a sandbox without starting it; returns its id.
    ///
    /// An interrupted call may have created the container nevertheless: a listing by its labels finds it.
    pub async fn create_container(
        &self,
        sandbox: &str,
        config: cri::ContainerConfig,
        sandbox_config: cri::PodSandboxConfig,
    ) -> Result<String, RuntimeError> {
        const CALL: &str = "CreateContainer";
        let name = config.metadata.as_ref().map(|m| m.name.as_str()).unwrap_or_default();
        let about = format!("{name} in sandbox {sandbox}");
        let mut service = self.service.clone();
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox_config),
        };
        let answer = service.create_container(request);
        let answer = self.call(CALL, &about, Some(self.request_limit), answer).await?;
        if answer.container_id.is_empty() {
            return Err(self.empty(CALL, &about, "container id"));
        }
        Ok(answer.container_id)
    }

    /// Starts a created container.
    pub async fn start_container(&self, id: &str) -> Result<(), RuntimeError> {
        let mut service = self.service.clone();
        let answer = service.start_container(cri::StartContainerRequest { container_id: id.to_owned() });
        self.call("StartContainer", id, Some(self.request_limit), answer).await.map(drop)
    }

    /// Sends the image's stop signal (TERM by default) and, after `grace` in whole seconds rounded up, KILL;
    /// returns when the container has ended. With a grace of zero it is killed at once. Succeeds if the
    /// container does not exist.
    pub async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let mut service = self.service.clone();
        let request =
            cri::StopContainerRequest { container_id: id.to_owned(), timeout: whole_seconds(grace) };
        // As in `remoteRuntimeService.StopContainer` of the kubelet.
        let limit = Some(grace.saturating_add(self.request_limit));
        gone_is_well(self.call("StopContainer", id, limit, service.stop_container(request)).await)
    }

    /// Removes a container; containerd kills it first if it runs. Succeeds if the container does not exist.
    pub async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let mut service = self.service.clone();
        let answer = service.remove_container(cri::RemoveContainerRequest { container_id: id.to_owned() });
        gone_is_well(self.call("RemoveContainer", id, Some(self.request_limit), answer).await)
    }

    /// State, times, exit code and labels of a container.
    ///
    /// # Errors
    /// [`RuntimeError::is_not_found`] if it does not exist.
    pub async fn container_status(&self, id: &str) -> Result<cri::ContainerStatus, RuntimeError> {
        const CALL: &str = "ContainerStatus";
        let mut service = self.service.clone();
        let request = cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        let answer = self.ask(CALL, id, service.container_status(request)).await?;
        answer.status.ok_or_else(|| self.empty(CALL, id, "status"))
    }

    /// Statistics of all running containers (disk usage of their writable layers), as of the runtime's last
    /// collection.
    pub async fn container_stats(&self) -> Result<Vec<cri::ContainerStats>, RuntimeError> {
        let mut service = self.service.clone();
        let answer = service.list_container_stats(cri::ListContainerStatsRequest {});
        Ok(self.ask("ListContainerStats", "", answer).await?.stats)
    }

    /// The device nodes of a container, including those added by CDI: `linux.devices` of its OCI
    /// configuration, which containerd and CRI-O report in the verbose status. Empty if the runtime does not
    /// report it.
    ///
    /// # Errors
    /// [`RuntimeError::is_not_found`] if it does not exist.
    pub async fn container_devices(&self, id: &str) -> Result<Vec<HostDevice>, RuntimeError> {
        const CALL: &str = "ContainerStatus";
        let mut service = self.service.clone();
        let request = cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: true };
        let answer = self.ask(CALL, id, service.container_status(request)).await?;
        Ok(answer.info.get("info").map(|info| oci_devices(info)).unwrap_or_default())
    }

    /// Changes the limits of a created or running container. Fields that are 0 are not changed.
    pub async fn update_resources(
        &self,
        id: &str,
        resources: cri::LinuxContainerResources,
    ) -> Result<(), RuntimeError> {
        let mut service = self.service.clone();
        let request = cri::UpdateContainerResourcesRequest {
            container_id: id.to_owned(),
            linux: Some(resources),
            ..Default::default()
        };
        let answer = service.update_container_resources(request);
        let answer = self.call("UpdateContainerResources", id, Some(self.request_limit), answer).await;
        nodewarden_machine::cgroup::limit_changes::record();
        answer.map(drop)
    }
}

impl Client {
    /// Makes the runtime reopen a running container's log file after it was renamed by the rotation.
    pub async fn reopen_log(&self, id: &str) -> Result<(), RuntimeError> {
        let mut service = self.service.clone();
        let request = cri::ReopenContainerLogRequest { container_id: id.to_owned() };
        let answer = service.reopen_container_log(request);
        self.call("ReopenContainerLog", id, Some(self.request_limit), answer).await.map(drop)
    }
}

/// Converts to CRI's unit, rounding up because 0 has a special meaning.
pub(super) fn whole_seconds(time: Duration) -> i64 {
    let seconds = time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0));
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

/// `runtimeSpec.linux.devices` of a verbose status.
pub fn oci_devices(info: &str) -> Vec<HostDevice> {
    let Ok(info) = serde_json::from_str::<serde_json::Value>(info) else { return Vec::new() };
    let listed = info["runtimeSpec"]["linux"]["devices"].as_array();
    let number = |value: &serde_json::Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let device = |listed: &serde_json::Value| {
        let kind = match listed["type"].as_str()? {
            "c" | "u" => HostDeviceKind::Char,
            "b" => HostDeviceKind::Block,
            _ => return None,
        };
        let path = listed["path"].as_str()?.to_owned();
        Some(HostDevice { path, kind, major: number(&listed["major"])?, minor: number(&listed["minor"])? })
    };
    listed.into_iter().flatten().filter_map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_second_is_a_second() {
        for (milliseconds, seconds) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (30_000, 30)] {
            assert_eq!(whole_seconds(Duration::from_millis(milliseconds)), seconds, "{milliseconds} ms");
        }
        assert_eq!(whole_seconds(Duration::MAX), i64::MAX);
    }

    #[test]
    fn devices_of_a_verbose_status() {
        let info = r#"{"runtimeSpec": {"linux": {"devices": [
            {"path": "/dev/a", "type": "c", "major": 10, "minor": 229},
            {"path": "/dev/b", "type": "b", "major": 8, "minor": 0, "fileMode": 432},
            {"path": "/dev/fifo", "type": "p"}
        ]}}}"#;
        let device = |path: &str, kind, major, minor| HostDevice { path: path.into(), kind, major, minor };
        let expected =
            [device("/dev/a", HostDeviceKind::Char, 10, 229), device("/dev/b", HostDeviceKind::Block, 8, 0)];
        assert_eq!(oci_devices(info), expected);
        for none in ["", "{}", r#"{"runtimeSpec": {"linux": {}}}"#] {
            assert_eq!(oci_devices(none), []);
        }
    }
}
