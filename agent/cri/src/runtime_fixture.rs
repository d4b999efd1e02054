//! A fake runtime on a socket of its own, for answers that an installed runtime cannot be made to give.

#![allow(clippy::unwrap_used, reason = "a fixture of tests: what it is made of is valid")]

use std::path::Path;
use std::pin::Pin;

use nodewarden_proto::runtime::v1 as cri;
use nodewarden_proto::runtime::v1::runtime_service_server::{RuntimeService, RuntimeServiceServer};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use crate::Client;
use nodewarden_config::Endpoint;

/// The future of a call, as `async_trait` writes it. It is written out because `async_trait` does not expand
/// macros.
type Call<'f, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'f>>;

/// Declares [`FakeRuntime`] and forwards the calls of the protocol to it.
macro_rules! calls {
    ($($name:ident($request:ident) -> $answer:ident),* $(,)?) => {
        /// What a fake runtime answers. Implemented with `#[tonic::async_trait]`; a call that is left out is
        /// unimplemented.
        pub trait FakeRuntime: Send + Sync + 'static {
            $(
                /// The call of this name.
                fn $name<'s, 'f>(&'s self, _: cri::$request) -> Call<'f, cri::$answer>
                where
                    's: 'f,
                    Self: 'f,
                {
                    Box::pin(async { Err(Status::unimplemented(concat!("unknown method ", stringify!($name)))) })
                }
            )*
        }

        #[tonic::async_trait]
        impl<R: FakeRuntime> RuntimeService for Server<R> {
            $(
                fn $name<'s, 'f>(
                    &'s self,
                    request: Request<cri::$request>,
                ) -> Call<'f, Response<cri::$answer>>
                where
                    's: 'f,
                    Self: 'f,
                {
                    Box::pin(async move { self.0.$name(request.into_inner()).await.map(Response::new) })
                }
            )*

            type GetContainerEventsStream = tokio_stream::Empty<Result<cri::ContainerEventResponse, Status>>;

            async fn get_container_events(
                &self,
                _: Request<cri::GetEventsRequest>,
            ) -> Result<Response<Self::GetContainerEventsStream>, Status> {
                Err(Status::unimplemented("unknown method get_container_events"))
            }
        }
    };
}

calls! {
    version(VersionRequest) -> VersionResponse,
    status(StatusRequest) -> StatusResponse,
    runtime_config(RuntimeConfigRequest) -> RuntimeConfigResponse,
    list_pod_sandbox(ListPodSandboxRequest) -> ListPodSandboxResponse,
    pod_sandbox_status(PodSandboxStatusRequest) -> PodSandboxStatusResponse,
    run_pod_sandbox(RunPodSandboxRequest) -> RunPodSandboxResponse,
    stop_pod_sandbox(StopPodSandboxRequest) -> StopPodSandboxResponse,
    remove_pod_sandbox(RemovePodSandboxRequest) -> RemovePodSandboxResponse,
    list_containers(ListContainersRequest) -> ListContainersResponse,
    container_status(ContainerStatusRequest) -> ContainerStatusResponse,
    create_container(CreateContainerRequest) -> CreateContainerResponse,
    start_container(StartContainerRequest) -> StartContainerResponse,
    stop_container(StopContainerRequest) -> StopContainerResponse,
    remove_container(RemoveContainerRequest) -> RemoveContainerResponse,
    update_container_resources(UpdateContainerResourcesRequest) -> UpdateContainerResourcesResponse,
    list_container_stats(ListContainerStatsRequest) -> ListContainerStatsResponse,
    reopen_container_log(ReopenContainerLogRequest) -> ReopenContainerLogResponse,
    exec_sync(ExecSyncRequest) -> ExecSyncResponse,
    exec(ExecRequest) -> ExecResponse,
    attach(AttachRequest) -> AttachResponse,
    port_forward(PortForwardRequest) -> PortForwardResponse,
}

struct Server<R>(R);

/// A client of the fake runtime, which answers at `socket` until the test ends. A file that is there already,
/// as of an agent before, is replaced.
pub fn serve(runtime: impl FakeRuntime, socket: &Path) -> Client {
    let _ = std::fs::remove_file(socket);
    let listener = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
    let service = RuntimeServiceServer::new(Server(runtime));
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(listener));
    Client::new(&Endpoint::parse(&socket.to_string_lossy()).unwrap())
}
