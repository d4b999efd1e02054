//! A CRI v1 client over the runtime's Unix socket: the connection, and the calls about the runtime as a
//! whole.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use nodewarden_proto::runtime::v1 as cri;
use nodewarden_proto::runtime::v1::image_service_client::ImageServiceClient;
use nodewarden_proto::runtime::v1::runtime_service_client::RuntimeServiceClient;
use tokio::net::UnixStream;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint as Transport, Uri};
use tonic_prost::ProstCodec;

use super::error::About;
use super::labels::POD_UID;
use super::listing::{Item, Items};
use super::patient::Patient;
use super::{Condition, Listing, RuntimeError, cni_results};
use nodewarden_config::Endpoint;
use nodewarden_machine::cgroup::control::DriverKind;

/// Time limit of a call, including connecting: the default of the kubelet's `runtimeRequestTimeout`.
const REQUEST_LIMIT: Duration = Duration::from_secs(120);
/// Largest response in bytes: `maxMsgSize` of the kubelet's CRI client.
const LARGEST_ANSWER: usize = 16 << 20;

/// Name and version of a runtime: `containerd 1.6.20`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The runtime's name: `containerd`, `cri-o`.
    pub name: String,
    /// The runtime's version as it reports it.
    pub version: String,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

/// A connection to a runtime, opened by the first call and reopened after it broke.
///
/// Every call has a time limit, except those whose duration the pod's author determines. Dropping the future
/// of a call cancels the call in the runtime too.
#[derive(Debug, Clone)]
pub struct Client {
    pub(super) endpoint: Endpoint,
    channel: Channel,
    pub(super) service: RuntimeServiceClient<Channel>,
    pub(super) images: ImageServiceClient<Channel>,
    /// Where `images` is.
    image_endpoint: Endpoint,
    pub(super) request_limit: Duration,
    /// Where libcni keeps the results of network plugins.
    pub(super) cni_results: Arc<Path>,
}

impl Client {
    /// A client of the runtime at `endpoint`. Must be called inside a tokio runtime; does not connect yet.
    pub fn new(endpoint: &Endpoint) -> Self {
        Self::with_pause(endpoint, Duration::ZERO)
    }

    /// As [`Self::new`]; an answer is read so long after its first piece has come, see [`Patient`].
    pub(super) fn with_pause(endpoint: &Endpoint, pause: Duration) -> Self {
        let channel = channel(endpoint, pause);
        Self {
            endpoint: endpoint.clone(),
            channel: channel.clone(),
            service: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(LARGEST_ANSWER),
            images: ImageServiceClient::new(channel).max_decoding_message_size(LARGEST_ANSWER),
            image_endpoint: endpoint.clone(),
            request_limit: REQUEST_LIMIT,
            cni_results: Path::new(cni_results::DIRECTORY).into(),
        }
    }

    /// Makes calls about images to another service (`imageServiceEndpoint`), if there is one.
    pub fn with_image_service(mut self, endpoint: Option<&Endpoint>) -> Self {
        if let Some(endpoint) = endpoint {
            let service = ImageServiceClient::new(channel(endpoint, Duration::ZERO));
            self.images = service.max_decoding_message_size(LARGEST_ANSWER);
            self.image_endpoint = endpoint.clone();
        }
        self
    }

    /// The same client with the image service as the one that errors name.
    pub(super) fn of_images(&self) -> Self {
        Self { endpoint: self.image_endpoint.clone(), ..self.clone() }
    }

    /// Sets the time limit of calls (`runtimeRequestTimeout`, 2 minutes by default).
    pub fn with_request_limit(mut self, limit: Duration) -> Self {
        self.request_limit = limit;
        self
    }

    /// The runtime's socket.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Name and version of the runtime.
    pub async fn version(&self) -> Result<Version, RuntimeError> {
        let mut service = self.service.clone();
        let answer = self.ask("Version", "", service.version(cri::VersionRequest::default())).await?;
        Ok(Version { name: answer.runtime_name, version: answer.runtime_version })
    }

    /// The conditions that the runtime reports: at least RuntimeReady and NetworkReady.
    pub async fn conditions(&self) -> Result<Vec<Condition>, RuntimeError> {
        let mut service = self.service.clone();
        let answer = self.ask("Status", "", service.status(cri::StatusRequest::default())).await?;
        Ok(answer.status.unwrap_or_default().conditions.into_iter().map(Condition::from).collect())
    }

    /// Whether the default handler supports recursive read-only mounts; false for runtimes that do not report
    /// it.
    pub async fn recursive_read_only(&self) -> Result<bool, RuntimeError> {
        let mut service = self.service.clone();
        let answer = self.ask("Status", "", service.status(cri::StatusRequest::default())).await?;
        let default = answer.runtime_handlers.into_iter().find(|handler| handler.name.is_empty());
        Ok(default.and_then(|handler| handler.features).is_some_and(|f| f.recursive_read_only_mounts))
    }

    /// The cgroup driver that the runtime uses, so that the pods' cgroups are created with the same one
    /// (KEP-4033). `None` if the runtime does not report it: containerd before 2.0 does not implement the
    /// call, and the response may lack it.
    pub async fn cgroup_driver(&self) -> Result<Option<DriverKind>, RuntimeError> {
        const CALL: &str = "RuntimeConfig";
        let mut service = self.service.clone();
        let answer = match self.ask(CALL, "", service.runtime_config(cri::RuntimeConfigRequest {})).await {
            Err(e) if e.is_unimplemented() => return Ok(None),
            answer => answer?,
        };
        // Without the message the enumeration's default would be systemd, which the runtime did not report.
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
        self.list_labelled("", HashMap::new()).await
    }

    /// The sandboxes and containers of the pod with this uid, running or not.
    pub async fn list_pod(&self, uid: &str) -> Result<Listing, RuntimeError> {
        self.list_owned(POD_UID, uid).await
    }

    /// The sandboxes and containers with this label, running or not.
    pub async fn list_owned(&self, label: &str, value: &str) -> Result<Listing, RuntimeError> {
        let about = format!("{label}={value}");
        self.list_labelled(&about, HashMap::from([(label.to_owned(), value.to_owned())])).await
    }

    async fn list_labelled(
        &self,
        about: &str,
        labels: HashMap<String, String>,
    ) -> Result<Listing, RuntimeError> {
        let filter = cri::PodSandboxFilter { label_selector: labels.clone(), ..Default::default() };
        let sandboxes = cri::ListPodSandboxRequest { filter: Some(filter) };
        let filter = cri::ContainerFilter { label_selector: labels, ..Default::default() };
        let containers = cri::ListContainersRequest { filter: Some(filter) };
        let (sandboxes, containers) = tokio::try_join!(
            self.ask("ListPodSandbox", about, self.items("ListPodSandbox", sandboxes)),
            self.ask("ListContainers", about, self.items("ListContainers", containers))
        )?;
        Ok(Listing { sandboxes: sandboxes.0, containers: containers.0 })
    }

    /// Calls `call` of the runtime service, whose response is a list.
    async fn items<T: Item + 'static>(
        &self,
        call: &'static str,
        request: impl prost::Message + 'static,
    ) -> Result<tonic::Response<Items<T>>, tonic::Status> {
        let mut service =
            tonic::client::Grpc::new(self.channel.clone()).max_decoding_message_size(LARGEST_ANSWER);
        service.ready().await.map_err(|error| tonic::Status::from_error(error.into()))?;
        let path = PathAndQuery::try_from(format!("/runtime.v1.RuntimeService/{call}"))
            .map_err(|error| tonic::Status::internal(error.to_string()))?;
        service.unary(tonic::Request::new(request), path, ProstCodec::default()).await
    }

    /// A read-only call.
    pub(super) async fn ask<T>(
        &self,
        call: &'static str,
        about: &str,
        answer: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, RuntimeError> {
        self.call(call, about, Some(self.request_limit), answer).await
    }

    /// A call with this time limit, or without one.
    pub(super) async fn call<T>(
        &self,
        call: &'static str,
        about: &str,
        limit: Option<Duration>,
        answer: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T, RuntimeError> {
        let answer = match limit {
            None => Ok(answer.await),
            Some(limit) => tokio::time::timeout(limit, answer).await.map_err(|_| limit),
        };
        let (endpoint, about) = (|| self.endpoint.clone(), || About(about.to_owned()));
        match answer {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => {
                let status = Box::new(status);
                Err(RuntimeError::Call { call, endpoint: endpoint(), about: about(), status })
            }
            Err(limit) => Err(RuntimeError::TimedOut { call, endpoint: endpoint(), about: about(), limit }),
        }
    }

    /// The error for a response without its essential field.
    pub(super) fn empty(&self, call: &'static str, about: &str, lacks: &'static str) -> RuntimeError {
        RuntimeError::Empty { call, endpoint: self.endpoint.clone(), about: About(about.to_owned()), lacks }
    }
}

/// Turns "not found" into success, for calls that stop or remove something.
pub(super) fn gone_is_well<T>(answer: Result<T, RuntimeError>) -> Result<(), RuntimeError> {
    match answer {
        Err(e) if !e.is_not_found() => Err(e),
        _ => Ok(()),
    }
}

fn channel(endpoint: &Endpoint, pause: Duration) -> Channel {
    let path = endpoint.path().to_owned();
    let connector = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(|stream| TokioIo::new(Patient::new(stream, pause))) }
    });
    // The windows of HTTP/2 are hyper's, which are large: tonic's documentation names those of the protocol.
    // The name is only used as :authority of the requests.
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
    async fn a_missing_socket_is_named_as_the_cause() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = endpoint(&dir);
        let error = Client::new(&endpoint).version().await.unwrap_err();
        assert_eq!(error.to_string(), format!("{endpoint}: Version: No such file or directory (os error 2)"));
        assert_eq!(error.cause(), "Version: No such file or directory (os error 2)");
    }

    /// Both services are asked at their own socket, and named in errors.
    #[tokio::test]
    async fn images_are_asked_of_their_own_service() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| Endpoint::parse(&dir.path().join(name).to_string_lossy()).unwrap();
        let (runtime, images) = (at("runtime.sock"), at("images.sock"));
        let client = Client::new(&runtime).with_image_service(Some(&images));
        let asked_for_images = client.list_images().await.unwrap_err().to_string();
        assert!(asked_for_images.starts_with(&format!("{images}: ListImages: ")), "{asked_for_images}");
        let asked_for_pods = client.list().await.unwrap_err().to_string();
        assert!(asked_for_pods.starts_with(&runtime.to_string()), "{asked_for_pods}");
        let alone = Client::new(&runtime).with_image_service(None);
        assert!(alone.list_images().await.unwrap_err().to_string().starts_with(&runtime.to_string()));
    }

    /// With the protocol's own window of 64 KiB the runtime would have to wait for the agent again and again
    /// while it sends the list of a thousand pods.
    #[tokio::test]
    async fn the_runtime_may_send_two_mebibytes_of_an_answer_without_waiting() {
        use std::io::Read;

        const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
        const FRAME_HEADER: usize = 9;
        let dir = tempfile::tempdir().unwrap();
        let endpoint = endpoint(&dir);
        let listener = UnixListener::bind(endpoint.path()).unwrap();
        let client = Client::new(&endpoint).with_request_limit(Duration::from_secs(20));
        let asks = tokio::spawn(async move { client.version().await.map(drop) });
        let settings = tokio::task::spawn_blocking(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut start = [0; PREFACE + FRAME_HEADER];
            socket.read_exact(&mut start).unwrap();
            let frame = &start[PREFACE..];
            assert_eq!(frame[3], 4, "the first frame has the settings");
            let mut settings = vec![0; usize::from(u16::from_be_bytes([frame[1], frame[2]]))];
            socket.read_exact(&mut settings).unwrap();
            settings
        });
        let settings = settings.await.unwrap();
        asks.abort();
        // Each has a number, of two bytes, and a value of four; number 4 is the initial window of a stream.
        let (each, _) = settings.as_chunks::<6>();
        let window = each.iter().find(|one| one[..2] == [0, 4]).expect("a window is asked for");
        assert!(u32::from_be_bytes([window[2], window[3], window[4], window[5]]) >= 2 << 20, "{window:?}");
    }

    /// A socket on which the kernel accepts connections, but nothing responds.
    #[tokio::test]
    async fn a_call_to_a_silent_runtime_times_out() {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = endpoint(&dir);
        let _listener = UnixListener::bind(endpoint.path()).unwrap();
        let client = Client::new(&endpoint).with_request_limit(Duration::from_millis(200));
        assert!(matches!(client.version().await, Err(RuntimeError::TimedOut { call: "Version", .. })));
        assert!(matches!(client.list().await, Err(RuntimeError::TimedOut { .. })));
    }
}
