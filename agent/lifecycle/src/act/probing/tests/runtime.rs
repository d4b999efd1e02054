//! A runtime with one sandbox and one container, which ends when it is stopped.

use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;

use nodewarden_proto::runtime::v1 as cri;
use nodewarden_proto::runtime::v1::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use nodewarden_config::Endpoint;
use nodewarden_cri::Client;
use nodewarden_pods::spec::OWNER;

/// See the module. Cloning shares it.
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

    pub fn serve(&self, dir: &std::path::Path) -> Client {
        let socket = dir.join("cri.sock");
        // Of an agent before.
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListenerStream::new(UnixListener::bind(&socket).unwrap());
        let server = tonic::transport::Server::builder().add_service(RuntimeServiceServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(listener));
        Client::new(&Endpoint::parse(&socket.to_string_lossy()).unwrap())
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

/// Calls that this runtime does not know; spelled out as `async_trait` would, which does not look into
/// macros.
macro_rules! unknown {
    ($($name:ident($request:ident) -> $answer:ident),* $(,)?) => {
        $(fn $name<'s, 'f>(
            &'s self,
            _: Request<cri::$request>,
        ) -> Pin<Box<dyn Future<Output = Result<Response<cri::$answer>, Status>> + Send + 'f>>
        where
            's: 'f,
            Self: 'f,
        {
            Box::pin(async { Err(Status::unimplemented(concat!("unknown method ", stringify!($name)))) })
        })*
    };
}

#[tonic::async_trait]
impl RuntimeService for Fake {
    async fn list_pod_sandbox(
        &self,
        _: Request<cri::ListPodSandboxRequest>,
    ) -> Result<Response<cri::ListPodSandboxResponse>, Status> {
        let Some(ready) = self.state().sandbox else {
            return Ok(Response::new(cri::ListPodSandboxResponse::default()));
        };
        let sandbox = cri::PodSandbox {
            id: "s0".into(),
            metadata: Some(cri::PodSandboxMetadata::default()),
            state: i32::from(!ready),
            created_at: 1,
            labels: [(OWNER.to_owned(), "me".to_owned())].into(),
            ..Default::default()
        };
        Ok(Response::new(cri::ListPodSandboxResponse { items: vec![sandbox] }))
    }

    async fn pod_sandbox_status(
        &self,
        _: Request<cri::PodSandboxStatusRequest>,
    ) -> Result<Response<cri::PodSandboxStatusResponse>, Status> {
        let network = cri::PodSandboxNetworkStatus { ip: "10.0.0.7".into(), ..Default::default() };
        let status = cri::PodSandboxStatus { network: Some(network), ..Default::default() };
        Ok(Response::new(cri::PodSandboxStatusResponse { status: Some(status), ..Default::default() }))
    }

    async fn list_containers(
        &self,
        _: Request<cri::ListContainersRequest>,
    ) -> Result<Response<cri::ListContainersResponse>, Status> {
        let mut own = self.state();
        own.looks += 1;
        if own.looks == own.exit_at {
            (own.container, own.exit_code) = (cri::ContainerState::ContainerExited, 0);
        }
        if !own.there {
            return Ok(Response::new(cri::ListContainersResponse::default()));
        }
        let container = cri::Container {
            id: "c0".into(),
            pod_sandbox_id: "s0".into(),
            state: own.container as i32,
            labels: [(OWNER.to_owned(), "me".to_owned())].into(),
            ..Default::default()
        };
        Ok(Response::new(cri::ListContainersResponse { containers: vec![container] }))
    }

    async fn container_status(
        &self,
        _: Request<cri::ContainerStatusRequest>,
    ) -> Result<Response<cri::ContainerStatusResponse>, Status> {
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
        Ok(Response::new(cri::ContainerStatusResponse { status: Some(status), ..Default::default() }))
    }

    async fn stop_container(
        &self,
        request: Request<cri::StopContainerRequest>,
    ) -> Result<Response<cri::StopContainerResponse>, Status> {
        let request = request.into_inner();
        {
            let mut state = self.state();
            state.calls.push(format!("stop {} {}", request.container_id, request.timeout));
            (state.on_stop)();
        }
        self.0.stops.acquire().await.unwrap().forget();
        self.state().container = cri::ContainerState::ContainerExited;
        Ok(Response::new(cri::StopContainerResponse::default()))
    }

    async fn stop_pod_sandbox(
        &self,
        _: Request<cri::StopPodSandboxRequest>,
    ) -> Result<Response<cri::StopPodSandboxResponse>, Status> {
        let mut state = self.state();
        state.sandbox = state.sandbox.and(Some(false));
        Ok(Response::new(cri::StopPodSandboxResponse::default()))
    }

    async fn remove_pod_sandbox(
        &self,
        _: Request<cri::RemovePodSandboxRequest>,
    ) -> Result<Response<cri::RemovePodSandboxResponse>, Status> {
        let mut state = self.state();
        assert!(!state.there || state.container == cri::ContainerState::ContainerExited);
        (state.sandbox, state.there) = (None, false);
        Ok(Response::new(cri::RemovePodSandboxResponse::default()))
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<cri::RunPodSandboxRequest>,
    ) -> Result<Response<cri::RunPodSandboxResponse>, Status> {
        let metadata = request.into_inner().config.unwrap_or_default().metadata.unwrap_or_default();
        let mut state = self.state();
        assert_eq!(state.sandbox, None);
        state.sandbox = Some(true);
        state.calls.push(format!("run s{}", metadata.attempt));
        Ok(Response::new(cri::RunPodSandboxResponse { pod_sandbox_id: "s0".into() }))
    }

    /// A command that never ends.
    async fn exec_sync(
        &self,
        request: Request<cri::ExecSyncRequest>,
    ) -> Result<Response<cri::ExecSyncResponse>, Status> {
        self.state().calls.push(format!("exec {}", request.into_inner().container_id));
        std::future::pending().await
    }

    type GetContainerEventsStream = tokio_stream::Empty<Result<cri::ContainerEventResponse, Status>>;

    async fn get_container_events(
        &self,
        _: Request<cri::GetEventsRequest>,
    ) -> Result<Response<Self::GetContainerEventsStream>, Status> {
        Err(Status::unimplemented("unknown method GetContainerEvents"))
    }

    unknown! {
        version(VersionRequest) -> VersionResponse,
        runtime_config(RuntimeConfigRequest) -> RuntimeConfigResponse,
        status(StatusRequest) -> StatusResponse,
        remove_container(RemoveContainerRequest) -> RemoveContainerResponse,
        update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse,
        list_container_stats(ListContainerStatsRequest) -> ListContainerStatsResponse,
        reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse,
        exec(ExecRequest) -> ExecResponse,
        create_container(CreateContainerRequest) -> CreateContainerResponse,
        start_container(StartContainerRequest) -> StartContainerResponse,
    }
}
