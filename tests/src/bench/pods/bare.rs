//! The same pod by bare CRI calls: what the container runtime alone takes.

use nodewarden_proto::runtime::v1 as cri;
use tonic::Status;

use super::{INSIDE, Measured};
use crate::fixture::{BUSYBOX_IMAGE, Cri};

/// What is asked of a pod.
#[derive(Clone)]
pub struct Bare {
    pub name: String,
    pub cgroup_parent: String,
    /// Where the program is, and where the mark goes.
    pub folder: String,
    pub logs: String,
}

impl Bare {
    fn sandbox(&self) -> cri::PodSandboxConfig {
        let node = cri::NamespaceMode::Node.into();
        let namespaces = cri::NamespaceOption { network: node, ..Default::default() };
        let security =
            cri::LinuxSandboxSecurityContext { namespace_options: Some(namespaces), ..Default::default() };
        cri::PodSandboxConfig {
            metadata: Some(cri::PodSandboxMetadata {
                name: self.name.clone(),
                uid: format!("{}-uid", self.name),
                namespace: "bare".to_owned(),
                attempt: 0,
            }),
            log_directory: format!("{}/{}", self.logs, self.name),
            linux: Some(cri::LinuxPodSandboxConfig {
                cgroup_parent: self.cgroup_parent.clone(),
                security_context: Some(security),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    fn container(&self) -> cri::ContainerConfig {
        let mount = cri::Mount {
            container_path: INSIDE.to_owned(),
            host_path: self.folder.clone(),
            ..Default::default()
        };
        cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata { name: "c".to_owned(), attempt: 0 }),
            image: Some(cri::ImageSpec { image: BUSYBOX_IMAGE.to_owned(), ..Default::default() }),
            command: Measured::command(&self.name).into(),
            mounts: vec![mount],
            log_path: "c.log".to_owned(),
            labels: [("io.kubernetes.container.name".to_owned(), "c".to_owned())].into(),
            linux: Some(cri::LinuxContainerConfig::default()),
            ..Default::default()
        }
    }

    /// Sandbox, container, start. Gives the sandbox's id.
    pub async fn start(self, cri: Cri) -> Result<String, Status> {
        let mut service = cri.service();
        let config = self.sandbox();
        let request =
            cri::RunPodSandboxRequest { config: Some(config.clone()), runtime_handler: String::new() };
        let sandbox = service.run_pod_sandbox(request).await?.into_inner().pod_sandbox_id;
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox.clone(),
            config: Some(self.container()),
            sandbox_config: Some(config),
        };
        let container = service.create_container(request).await?.into_inner().container_id;
        service.start_container(cri::StartContainerRequest { container_id: container }).await?;
        Ok(sandbox)
    }
}

/// Stops and removes a sandbox with all it has.
pub async fn end(sandbox: String, cri: Cri) -> Result<(), Status> {
    let mut service = cri.service();
    let request = cri::StopPodSandboxRequest { pod_sandbox_id: sandbox.clone() };
    service.stop_pod_sandbox(request).await?;
    service.remove_pod_sandbox(cri::RemovePodSandboxRequest { pod_sandbox_id: sandbox }).await?;
    Ok(())
}
