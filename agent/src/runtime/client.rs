//! A CRI v1 client over the runtime's Unix socket.

use std::fmt;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use nodewarden_proto::runtime::v1 as cri;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint as Transport, Uri};

use super::{Condition, Listing, RuntimeError};
use crate::cgroup::control::DriverKind;
use crate::config::Endpoint;

/// Time for one call, connecting included.
const LIMIT: Duration = Duration::from_secs(5);
/// Largest answer in bytes: `maxMsgSize` of the kubelet's CRI client.
const LARGEST_ANSWER: usize = 16 << 20;

/// Name and version of a runtime: `containerd 1.6.20`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub name: String,
    pub version: String,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// A connection to a runtime, made at the first call and made again when it broke.
#[derive(Debug, Clone)]
pub struct Client {
    endpoint: Endpoint,
    service: cri::runtime_service_client::RuntimeServiceClient<Channel>,
    limit: Duration,
}

impl Client {
    /// Must be called inside a tokio runtime; does not connect yet.
    pub fn new(endpoint: &Endpoint) -> Self {
        let service = cri::runtime_service_client::RuntimeServiceClient::new(channel(endpoint))
            .max_decoding_message_size(LARGEST_ANSWER);
        Self { endpoint: endpoint.clone(), service, limit: LIMIT }
    }

    #[cfg(test)]
    pub(super) fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Who the runtime is.
    pub async fn version(&self) -> Result<Version, RuntimeError> {
        let mut service = self.service.clone();
        let answer = self.call("Version", service.version(cri::VersionRequest::default())).await?;
        Ok(Version { name: answer.runtime_name, version: answer.runtime_version })
    }

    /// What the runtime says of itself: RuntimeReady and NetworkReady at least.
    pub async fn conditions(&self) -> Result<Vec<Condition>, RuntimeError> {
        let mut service = self.service.clone();
        let answer = self.call("Status", service.status(cri::StatusRequest::default())).await?;
        Ok(answer.status.unwrap_or_default().conditions.into_iter().map(Condition::from).collect())
    }

    /// The cgroup driver that the runtime uses, so that the pods' cgroups are made by the same one (KEP-4033). None
    /// from a runtime that does not tell: containerd before 2.0 does not know the call, and one may leave it empty.
    pub async fn cgroup_driver(&self) -> Result<Option<DriverKind>, RuntimeError> {
        const CALL: &str = "RuntimeConfig";
        let mut service = self.service.clone();
        let answer = match self.call(CALL, service.runtime_config(cri::RuntimeConfigRequest {})).await {
            Err(RuntimeError::Call { status, .. }) if status.code() == tonic::Code::Unimplemented => {
                return Ok(None);
            }
            answer => answer?,
        };
        // Without the message the enumeration's default would say systemd, which nobody said.
        let Some(linux) = answer.linux else { return Ok(None) };
        match cri::CgroupDriver::try_from(linux.cgroup_driver) {
            Ok(cri::CgroupDriver::Systemd) => Ok(Some(DriverKind::Systemd)),
            Ok(cri::CgroupDriver::Cgroupfs) => Ok(Some(DriverKind::Cgroupfs)),
            Err(_) => Err(RuntimeError::UnknownDriver {
                endpoint: self.endpoint.clone(),
                driver: linux.cgroup_driver,
            }),
        }
    }

    /// All pod sandboxes and containers, running or not.
    pub async fn list(&self) -> Result<Listing, RuntimeError> {
        let (mut service, mut other) = (self.service.clone(), self.service.clone());
        let sandboxes =
            self.call("ListPodSandbox", service.list_pod_sandbox(cri::ListPodSandboxRequest::default()));
        let containers =
            self.call("ListContainers", other.list_containers(cri::ListContainersRequest::default()));
        let (sandboxes, containers) = tokio::try_join!(sandboxes, containers)?;
        Ok(Listing { sandboxes: sandboxes.items, containers: containers.containers })
    }

    async fn call<T>(
        &self,
        call: &'static str,
        answer: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, RuntimeError> {
        let endpoint = || self.endpoint.clone();
        match tokio::time::timeout(self.limit, answer).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => {
                Err(RuntimeError::Call { call, endpoint: endpoint(), status: Box::new(status) })
            }
            Err(_) => Err(RuntimeError::TimedOut { call, endpoint: endpoint(), limit: self.limit }),
        }
    }
}

pub(super) fn channel(endpoint: &Endpoint) -> Channel {
    let path = endpoint.path().to_owned();
    let connector = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    // The name is only the :authority of the requests.
    Transport::from_static("http://localhost").connect_with_connector_lazy(connector)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn endpoint(dir: &tempfile::TempDir) -> Endpoint {
        Endpoint::parse(&dir.path().join("cri.sock").to_string_lossy()).unwrap()
    }

    #[tokio::test]
    async fn no_socket_is_said_with_its_cause() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = endpoint(&dir);
        let error = Client::new(&endpoint).version().await.unwrap_err();
        assert_eq!(error.to_string(), format!("{endpoint}: Version: No such file or directory (os error 2)"));
        assert_eq!(error.cause(), "Version: No such file or directory (os error 2)");
    }

    /// A socket that accepts (the kernel does it) and says nothing.
    #[tokio::test]
    async fn a_silent_runtime_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = endpoint(&dir);
        let _listener = UnixListener::bind(endpoint.path()).unwrap();
        let client = Client::new(&endpoint).with_limit(Duration::from_millis(200));
        assert!(matches!(client.version().await, Err(RuntimeError::TimedOut { call: "Version", .. })));
        assert!(matches!(client.list().await, Err(RuntimeError::TimedOut { .. })));
    }
}
