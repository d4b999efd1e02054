//! A client of the kubelet's PodResources v1, and a reader of its checkpoint, which is never written or
//! renamed here.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use nodewarden_model::DevicesPerNuma;
use nodewarden_proto::podresources::v1 as api;
use nodewarden_proto::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Response, Status};

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::plugin::LARGEST_MESSAGE;

/// How long one call may take, with connecting.
const LIMIT: Duration = Duration::from_secs(10);
/// The kubelet's name of its checkpoint (`kubeletDeviceManagerCheckpoint`).
const CHECKPOINT: &str = "kubelet_internal_checkpoint";
/// More than this is no checkpoint.
const LARGEST_CHECKPOINT: u64 = 64 << 20;

/// What the kubelet says of devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Its pods, also those without devices.
    pub pods: Vec<AnsweredPod>,
    /// Healthy devices by resource; `None` from a kubelet that does not say (before 1.21).
    pub allocatable: Option<BTreeMap<String, DevicesPerNuma>>,
}

/// A pod of the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnsweredPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its containers.
    pub containers: Vec<AnsweredContainer>,
}

/// A container of the answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnsweredContainer {
    /// Its name.
    pub name: String,
    /// Ids by resource and NUMA node.
    pub devices: BTreeMap<String, DevicesPerNuma>,
    /// CDI devices by the name of the resource claim.
    pub claims: BTreeMap<String, Vec<String>>,
}

/// Why the kubelet was not asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("PodResources at {path}: {call}: {status}")]
    /// It cannot be reached, or answered with an error.
    Call {
        /// The socket.
        path: PathBuf,
        /// The call.
        call: &'static str,
        /// Its answer.
        status: Box<Status>,
    },
    #[error("PodResources at {path}: {call}: no answer within {LIMIT:?}")]
    /// It does not answer.
    TimedOut {
        /// The socket.
        path: PathBuf,
        /// The call.
        call: &'static str,
    },
}

/// Why the checkpoint says nothing.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointUnknown {
    #[error("read {path}: {source}")]
    /// It cannot be read.
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    #[error("{path}: {source}")]
    /// It is none, or of another version.
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: CheckpointError,
    },
}

/// The kubelet's socket. It connects again when the connection was lost.
#[derive(Debug, Clone)]
pub struct KubeletSocket {
    path: PathBuf,
    client: PodResourcesListerClient<Channel>,
}

impl KubeletSocket {
    /// Does not connect yet. Must be called inside a tokio runtime.
    pub fn new(path: &Path) -> Self {
        let socket = path.to_owned();
        let connector = tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // The name is only used as the :authority of requests.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector);
        let client = PodResourcesListerClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
        Self { path: path.to_owned(), client }
    }

    /// Asks who has what, and what there is.
    ///
    /// # Errors
    /// The kubelet cannot be reached or does not answer.
    pub async fn ask(&self) -> Result<Answer, AskError> {
        let mut client = self.client.clone();
        let list = client.list(api::ListPodResourcesRequest {});
        let list = self.answer("List", list).await?;
        let allocatable = client.get_allocatable_resources(api::AllocatableResourcesRequest {});
        let allocatable = match self.answer("GetAllocatableResources", allocatable).await {
            Ok(answer) => Some(by_resource(&answer.devices)),
            // Before 1.21 it does not exist; before 1.23 it may be off, which is answered as an error of its
            // own.
            Err(AskError::Call { status, .. }) if is_not_offered(&status) => None,
            Err(error) => return Err(error),
        };
        Ok(Answer { pods: list.pod_resources.into_iter().map(pod).collect(), allocatable })
    }

    async fn answer<T>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, AskError> {
        let path = || self.path.clone();
        match tokio::time::timeout(LIMIT, answer).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(AskError::Call { path: path(), call, status: Box::new(status) }),
            Err(_) => Err(AskError::TimedOut { path: path(), call }),
        }
    }
}

fn is_not_offered(status: &Status) -> bool {
    status.code() == Code::Unimplemented
        || status.code() == Code::Unknown && status.message().contains("feature gate")
        || status.code() == Code::Unknown && status.message().contains("disabled")
}

fn pod(own: api::PodResources) -> AnsweredPod {
    AnsweredPod {
        namespace: own.namespace,
        name: own.name,
        containers: own.containers.into_iter().map(container).collect(),
    }
}

fn container(own: api::ContainerResources) -> AnsweredContainer {
    let mut claims: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for claim in own.dynamic_resources {
        let devices = claim.claim_resources.into_iter().flat_map(|of| of.cdi_devices);
        let name = format!("claim {}/{}", claim.claim_namespace, claim.claim_name);
        claims.entry(name).or_default().extend(devices.map(|device| device.name));
    }
    AnsweredContainer { name: own.name, devices: by_resource(&own.devices), claims }
}

/// Ids by resource and NUMA node, -1 for none. The kubelet has one message for each device and node.
fn by_resource(devices: &[api::ContainerDevices]) -> BTreeMap<String, DevicesPerNuma> {
    let mut all: BTreeMap<String, DevicesPerNuma> = BTreeMap::new();
    for own in devices {
        let of = all.entry(own.resource_name.clone()).or_default();
        let mut nodes: Vec<i64> =
            own.topology.iter().flat_map(|topology| &topology.nodes).map(|node| node.id).collect();
        if nodes.is_empty() {
            nodes.push(-1);
        }
        for node in nodes {
            of.entry(node).or_default().extend(own.device_ids.iter().cloned());
        }
    }
    all
}

/// The kubelet's checkpoint; `None` if it has none, since no device was ever given. Blocks on the file
/// system.
///
/// # Errors
/// It cannot be read, or is of another version.
pub fn checkpoint(directory: &Path) -> Result<Option<Checkpoint>, CheckpointUnknown> {
    let path = directory.join(CHECKPOINT);
    match read(&path) {
        Ok(bytes) => {
            Checkpoint::parse(&bytes).map(Some).map_err(|source| CheckpointUnknown::Parse { path, source })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CheckpointUnknown::Read { path, source }),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    if std::fs::metadata(path)?.len() > LARGEST_CHECKPOINT {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 64 MiB"));
    }
    std::fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(resource: &str, id: &str, nodes: &[i64]) -> api::ContainerDevices {
        let nodes: Vec<_> = nodes.iter().map(|id| api::NumaNode { id: *id }).collect();
        api::ContainerDevices {
            resource_name: resource.into(),
            device_ids: vec![id.into()],
            topology: (!nodes.is_empty()).then_some(api::TopologyInfo { nodes }),
        }
    }

    #[test]
    fn one_message_for_each_device_and_node_is_one_resource() {
        let own = [message("a/b", "1", &[]), message("a/b", "2", &[0]), message("a/b", "2", &[1])];
        let set = |id: &str| [id.to_owned()].into();
        let expected = DevicesPerNuma::from([(-1, set("1")), (0, set("2")), (1, set("2"))]);
        assert_eq!(by_resource(&own), BTreeMap::from([("a/b".to_owned(), expected)]));
    }

    #[test]
    fn claims_have_the_devices_of_all_their_requests() {
        let request = |names: &[&str]| api::ClaimResource {
            cdi_devices: names.iter().map(|name| api::CdiDevice { name: (*name).to_owned() }).collect(),
        };
        let own = container(api::ContainerResources {
            name: "c".into(),
            dynamic_resources: vec![api::DynamicResource {
                claim_name: "gpu".into(),
                claim_namespace: "ml".into(),
                claim_resources: vec![request(&["v/g=0"]), request(&["v/g=1"])],
            }],
            ..api::ContainerResources::default()
        });
        assert_eq!(
            own.claims,
            BTreeMap::from([("claim ml/gpu".to_owned(), vec!["v/g=0".into(), "v/g=1".into()])])
        );
    }

    #[test]
    fn a_kubelet_that_does_not_offer_a_call_is_no_fault() {
        for (status, expected) in [
            (Status::unimplemented("unknown method"), true),
            (Status::unknown("Pod Resources API GetAllocatableResources disabled"), true),
            (Status::unknown("something else"), false),
            (Status::unavailable("disabled"), false),
        ] {
            assert_eq!(is_not_offered(&status), expected, "{status}");
        }
    }

    #[tokio::test]
    async fn the_error_names_socket_call_and_cause() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubelet.sock");
        let error = KubeletSocket::new(&path).ask().await.unwrap_err().to_string();
        assert!(error.contains(path.to_str().unwrap()) && error.contains(": List: "), "{error}");
    }

    #[test]
    fn a_checkpoint_that_is_none_stays_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        assert!(checkpoint(dir.path()).unwrap().is_none());
        let path = dir.path().join(CHECKPOINT);
        std::fs::write(&path, "{}").unwrap();
        let error = checkpoint(dir.path()).unwrap_err().to_string();
        assert!(error.contains(CHECKPOINT), "{error}");
        assert!(path.exists());
    }
}
