//! Tests with a fake runtime, for responses that an installed runtime cannot be made to give.

use std::pin::Pin;

use nodewarden_proto::runtime::v1 as cri;
use nodewarden_proto::runtime::v1::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use crate::*;
use nodewarden_config::Endpoint;
use nodewarden_machine::cgroup::control::DriverKind;

/// The responses of the fake runtime.
#[derive(Debug, Clone, Default)]
struct Answers {
    config: Option<Result<cri::RuntimeConfigResponse, tonic::Code>>,
    conditions: Vec<cri::RuntimeCondition>,
}

/// Unimplemented calls; written as `async_trait` expands them, because it does not expand macros.
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
impl RuntimeService for Answers {
    async fn runtime_config(
        &self,
        _: Request<cri::RuntimeConfigRequest>,
    ) -> Result<Response<cri::RuntimeConfigResponse>, Status> {
        match self.config {
            Some(Ok(answer)) => Ok(Response::new(answer)),
            Some(Err(code)) => Err(Status::new(code, "no")),
            None => Err(Status::unimplemented("unknown method RuntimeConfig")),
        }
    }

    async fn status(&self, _: Request<cri::StatusRequest>) -> Result<Response<cri::StatusResponse>, Status> {
        let status = Some(cri::RuntimeStatus { conditions: self.conditions.clone() });
        Ok(Response::new(cri::StatusResponse { status, ..Default::default() }))
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
        pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse,
        stop_container(StopContainerRequest) -> StopContainerResponse,
        remove_container(RemoveContainerRequest) -> RemoveContainerResponse,
        container_status(ContainerStatusRequest) -> ContainerStatusResponse,
        update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse,
        reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse,
        exec_sync(ExecSyncRequest) -> ExecSyncResponse,
        list_container_stats(ListContainerStatsRequest) -> ListContainerStatsResponse,
        exec(ExecRequest) -> ExecResponse,
        list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse,
        list_containers(ListContainersRequest) -> ListContainersResponse,
        run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse,
        stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse,
        remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse,
        create_container(CreateContainerRequest) -> CreateContainerResponse,
        start_container(StartContainerRequest) -> StartContainerResponse,
    }
}

/// A client of a runtime with these responses, which exists as long as the directory.
fn serve(answers: Answers) -> (tempfile::TempDir, Client) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("cri.sock");
    let listener = UnixListenerStream::new(UnixListener::bind(&socket).unwrap());
    let server = tonic::transport::Server::builder().add_service(RuntimeServiceServer::new(answers));
    tokio::spawn(server.serve_with_incoming(listener));
    let client = Client::new(&Endpoint::parse(&socket.to_string_lossy()).unwrap());
    (directory, client)
}

#[tokio::test]
async fn the_driver_that_the_runtime_tells() {
    let linux = |driver| cri::RuntimeConfigResponse {
        linux: Some(cri::LinuxRuntimeConfiguration { cgroup_driver: driver }),
    };
    for (config, driver) in [
        (Some(Ok(linux(0))), Some(DriverKind::Systemd)),
        (Some(Ok(linux(1))), Some(DriverKind::Cgroupfs)),
        (Some(Ok(cri::RuntimeConfigResponse { linux: None })), None),
        (Some(Err(tonic::Code::Unimplemented)), None),
        (None, None),
    ] {
        let (_directory, client) = serve(Answers { config, ..Answers::default() });
        assert_eq!(client.cgroup_driver().await.unwrap(), driver, "{config:?}");
    }
}

#[tokio::test]
async fn an_answer_that_helps_nobody_is_an_error() {
    let unknown =
        cri::RuntimeConfigResponse { linux: Some(cri::LinuxRuntimeConfiguration { cgroup_driver: 7 }) };
    let (_directory, client) = serve(Answers { config: Some(Ok(unknown)), ..Answers::default() });
    let error = client.cgroup_driver().await.unwrap_err();
    assert!(
        error.to_string().ends_with("cgroup driver 7 is neither systemd (0) nor cgroupfs (1)"),
        "{error}"
    );
    let refused = Some(Err(tonic::Code::PermissionDenied));
    let (_directory, client) = serve(Answers { config: refused, ..Answers::default() });
    assert!(matches!(client.cgroup_driver().await, Err(RuntimeError::Call { call: "RuntimeConfig", .. })));
}

#[tokio::test]
async fn conditions_with_their_reasons() {
    let conditions = vec![
        cri::RuntimeCondition { r#type: "RuntimeReady".into(), status: true, ..Default::default() },
        cri::RuntimeCondition {
            r#type: "NetworkReady".into(),
            reason: "NetworkPluginNotReady".into(),
            message: "cni config uninitialized".into(),
            ..Default::default()
        },
    ];
    let (_directory, client) = serve(Answers { conditions, ..Answers::default() });
    let texts: Vec<String> = client.conditions().await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["RuntimeReady: true", "NetworkReady: false NetworkPluginNotReady: cni config uninitialized"]
    );
}
