//! A runtime with one sandbox and one container, which ends when it is stopped.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tonic::Status;

use nodewarden_cri::Client;
use nodewarden_cri::runtime_fixture::{self, FakeRuntime};
use nodewarden_pods::spec::OWNER;
use nodewarden_proto::runtime::v1 as cri;

/// The runtime and its calls so far. Cloning shares it.
#[derive(Clone)]
pub struct Fake(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Stops take one each.
    pub stops: Semaphore,
}

struct State {
    /// The container goes with its sandbox.
    there: bool,
    container: cri::ContainerState,
    exit_code: i32,
    /// Whether it is ready; none is there any more.
    sandbox: Option<bool>,
    calls: Vec<String>,
    /// How often it was asked for its containers.
    looks: u32,
    /// The container ends well before this look is answered.
    exit_at: u32,
    on_stop: Box<dyn FnMut() + Send>,
}

impl Fake {
    /// Container `c0` of name `c` runs in sandbox `s0`. Without `stops` it ends only when it is let.
    pub fn new(stops: usize) -> Self {
        let state = State {
            there: true,
            container: cri::ContainerState::ContainerRunning,
            exit_code: 137,
            sandbox: Some(true),
            calls: Vec::new(),
            looks: 0,
            exit_at: 0,
            on_stop: Box::new(|| {}),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), stops: Semaphore::new(stops) }))
    }

    pub fn serve(&self, dir: &Path) -> Client {
        runtime_fixture::serve(self.clone(), &dir.join("cri.sock"))
    }

    /// The container ends by itself.
    pub fn exit(&self, code: i32) {
        let mut state = self.state();
        (state.container, state.exit_code) = (cri::ContainerState::ContainerExited, code);
    }

    /// The container ends by itself, just before the runtime is asked for the `look`th time.
    pub fn exit_at(&self, look: u32) {
        self.state().exit_at = look;
    }

    /// The sandbox is gone with its container.
    pub fn lose_sandbox(&self) {
        let mut state = self.state();
        (state.sandbox, state.there) = (None, false);
    }

    /// The resources that it was asked to set.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    pub fn on_stop(&self, call: impl FnMut() + Send + 'static) {
        self.state().on_stop = Box::new(call);
    }

    pub fn let_end(&self) {
        self.0.stops.add_permits(1);
    }

    fn state(&self) -> parking_lot::MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

#[tonic::async_trait]
impl FakeRuntime for Fake {
    async fn list_pod_sandbox(
        &self,
        _: cri::ListPodSandboxRequest,
    ) -> Result<cri::ListPodSandboxResponse, Status> {
        let Some(ready) = self.state().sandbox else {
            return Ok(cri::ListPodSandboxResponse::default());
        };
        let sandbox = cri::PodSandbox {
            id: "s0".into(),
            metadata: Some(cri::PodSandboxMetadata::default()),
            state: i32::from(!ready),
            created_at: 1,
            labels: [(OWNER.to_owned(), "me".to_owned())].into(),
            ..Default::default()
        };
        Ok(cri::ListPodSandboxResponse { items: vec![sandbox] })
    }

    async fn pod_sandbox_status(
        &self,
        _: cri::PodSandboxStatusRequest,
    ) -> Result<cri::PodSandboxStatusResponse, Status> {
        let network = cri::PodSandboxNetworkStatus { ip: "10.0.0.7".into(), ..Default::default() };
        let status = cri::PodSandboxStatus { network: Some(network), ..Default::default() };
        Ok(cri::PodSandboxStatusResponse { status: Some(status), ..Default::default() })
    }

    async fn list_containers(
        &self,
        _: cri::ListContainersRequest,
    ) -> Result<cri::ListContainersResponse, Status> {
        let mut own = self.state();
        own.looks += 1;
        if own.looks == own.exit_at {
            (own.container, own.exit_code) = (cri::ContainerState::ContainerExited, 0);
        }
        if !own.there {
            return Ok(cri::ListContainersResponse::default());
        }
        let container = cri::Container {
            id: "c0".into(),
            pod_sandbox_id: "s0".into(),
            state: own.container as i32,
            labels: [(OWNER.to_owned(), "me".to_owned())].into(),
            ..Default::default()
        };
        Ok(cri::ListContainersResponse { containers: vec![container] })
    }

    async fn container_status(
        &self,
        _: cri::ContainerStatusRequest,
    ) -> Result<cri::ContainerStatusResponse, Status> {
        let state = self.state();
        if !state.there {
            return Err(Status::not_found("c0"));
        }
        let ended = state.container == cri::ContainerState::ContainerExited;
        let status = cri::ContainerStatus {
            id: "c0".into(),
            metadata: Some(cri::ContainerMetadata { name: "c".into(), attempt: 0 }),
            state: state.container as i32,
            created_at: 1,
            started_at: 2,
            finished_at: if ended { 3 } else { 0 },
            exit_code: if ended { state.exit_code } else { 0 },
            ..Default::default()
        };
        Ok(cri::ContainerStatusResponse { status: Some(status), ..Default::default() })
    }

    async fn stop_container(
        &self,
        request: cri::StopContainerRequest,
    ) -> Result<cri::StopContainerResponse, Status> {
        {
            let mut state = self.state();
            state.calls.push(format!("stop {} {}", request.container_id, request.timeout));
            (state.on_stop)();
        }
        self.0.stops.acquire().await.unwrap().forget();
        self.state().container = cri::ContainerState::ContainerExited;
        Ok(cri::StopContainerResponse::default())
    }

    async fn stop_pod_sandbox(
        &self,
        _: cri::StopPodSandboxRequest,
    ) -> Result<cri::StopPodSandboxResponse, Status> {
        let mut state = self.state();
        state.sandbox = state.sandbox.and(Some(false));
        Ok(cri::StopPodSandboxResponse::default())
    }

    async fn remove_pod_sandbox(
        &self,
        _: cri::RemovePodSandboxRequest,
    ) -> Result<cri::RemovePodSandboxResponse, Status> {
        let mut state = self.state();
        assert!(!state.there || state.container == cri::ContainerState::ContainerExited);
        (state.sandbox, state.there) = (None, false);
        Ok(cri::RemovePodSandboxResponse::default())
    }

    async fn run_pod_sandbox(
        &self,
        request: cri::RunPodSandboxRequest,
    ) -> Result<cri::RunPodSandboxResponse, Status> {
        let metadata = request.config.unwrap_or_default().metadata.unwrap_or_default();
        let mut state = self.state();
        assert_eq!(state.sandbox, None);
        state.sandbox = Some(true);
        state.calls.push(format!("run s{}", metadata.attempt));
        Ok(cri::RunPodSandboxResponse { pod_sandbox_id: "s0".into() })
    }

    /// A command that never ends.
    async fn exec_sync(&self, request: cri::ExecSyncRequest) -> Result<cri::ExecSyncResponse, Status> {
        self.state().calls.push(format!("exec {}", request.container_id));
        std::future::pending().await
    }
}
