//! The CRI calls that make a pod, for tests only: the agent itself makes none yet. Field numbers are those of
//! kubernetes/cri-api, pkg/apis/runtime/v1/api.proto.

use std::collections::HashMap;

use nodewarden_proto::runtime::v1 as cri;
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

/// `NamespaceMode.NODE`.
pub const NODE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub struct NamespaceOption {
    #[prost(int32, tag = "1")]
    pub network: i32,
    #[prost(int32, tag = "3")]
    pub ipc: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct SandboxSecurity {
    #[prost(message, optional, tag = "1")]
    pub namespaces: Option<NamespaceOption>,
}

#[derive(Clone, PartialEq, Message)]
pub struct LinuxSandbox {
    #[prost(string, tag = "1")]
    pub cgroup_parent: String,
    #[prost(message, optional, tag = "2")]
    pub security_context: Option<SandboxSecurity>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<cri::PodSandboxMetadata>,
    #[prost(message, optional, tag = "8")]
    pub linux: Option<LinuxSandbox>,
}

#[derive(Clone, PartialEq, Message)]
pub struct RunPodSandbox {
    #[prost(message, optional, tag = "1")]
    pub config: Option<SandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ContainerConfig {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<cri::ContainerMetadata>,
    #[prost(message, optional, tag = "2")]
    pub image: Option<cri::ImageSpec>,
    #[prost(map = "string, string", tag = "9")]
    pub labels: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CreateContainer {
    #[prost(string, tag = "1")]
    pub sandbox: String,
    #[prost(message, optional, tag = "2")]
    pub config: Option<ContainerConfig>,
    #[prost(message, optional, tag = "3")]
    pub sandbox_config: Option<SandboxConfig>,
}

/// A sandbox's or container's id: the only field of several requests and answers.
#[derive(Clone, PartialEq, Message)]
pub struct Id {
    #[prost(string, tag = "1")]
    pub id: String,
}

/// Calls `method` of the runtime service.
pub async fn call<Q: Message + 'static, A: Message + Default + 'static>(
    channel: &Channel,
    method: &str,
    request: Q,
) -> A {
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.unwrap();
    let path = PathAndQuery::try_from(format!("/runtime.v1.RuntimeService/{method}")).unwrap();
    match grpc.unary(tonic::Request::new(request), path, ProstCodec::<Q, A>::default()).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => panic!("{method}: {status}"),
    }
}
