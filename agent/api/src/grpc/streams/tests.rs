//! Logs and commands over the agent's socket, with fixture pods.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodSpec;
use proto::streams_client::StreamsClient;
use proto::streams_server::StreamsServer;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Server};

use super::*;
use nodewarden_cri::containerd_fixture::{Containerd, container_config, sandbox_config};
use nodewarden_manifest::{ContainerKind, Pod, QosClass, ResourceList, Spec};
use nodewarden_model::{
    ContainerState, ContainerView, PodPhase, PodView, Snapshot, Status as Whole, StatusReason, WaitingReason,
};

pub fn pod(namespace: &str, name: &str, uid: &str, containers: &[ContainerView]) -> Arc<PodView> {
    let pod = Pod {
        kind: nodewarden_manifest::PodKind::Static,
        uid: uid.into(),
        namespace: namespace.into(),
        name: name.into(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        priority: 0,
        qos: QosClass::BestEffort,
        init_containers: Vec::new(),
        containers: Vec::new(),
        ephemeral_containers: Vec::new(),
        overhead: ResourceList::default(),
        resources: None,
        host_network: false,
        active_deadline_seconds: None,
        empty_dirs: Box::default(),
        kept_spec: Spec::new(PodSpec::default()),
    };
    Arc::new(PodView {
        pod: Arc::new(pod),
        origin: "".into(),
        phase: PodPhase::Running,
        reason: StatusReason::None,
        message: String::new(),
        started: Timestamp::UNIX_EPOCH,
        terminating: None,
        ips: Vec::new(),
        sandbox_id: String::new(),
        containers: containers.to_vec(),
        resize: None,
        resizing: None,
        evicted: None,
        unseen: false,
        ended: false,
        api: None,
    })
}

/// A running container.
pub fn container(name: &str, id: &str) -> ContainerView {
    ContainerView {
        name: name.into(),
        kind: ContainerKind::Regular,
        image: String::new(),
        image_id: String::new(),
        id: id.into(),
        devices: Default::default(),
        state: ContainerState::Running { since: Timestamp::UNIX_EPOCH },
        last: None,
        restarts: 0,
        ready: true,
        started: true,
        resources: None,
        oom: None,
    }
}

#[derive(Default)]
struct Pods(Mutex<Vec<Arc<PodView>>>);

impl AgentState for Pods {
    fn snapshot(&self) -> Arc<Snapshot> {
        unreachable!("no stream needs it")
    }

    fn status(&self) -> Whole {
        unreachable!("no stream needs it")
    }

    fn pods(&self) -> Vec<Arc<PodView>> {
        self.0.lock().clone()
    }
}

/// The service on a socket, and a client of it.
struct Agent {
    dir: tempfile::TempDir,
    pods: Arc<Pods>,
    client: StreamsClient<Channel>,
    stop: watch::Sender<bool>,
}

impl Agent {
    async fn start(pods: Vec<Arc<PodView>>, runtime: Option<Client>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        let listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let pods = Arc::new(Pods(Mutex::new(pods)));
        let (stop, stopping) = watch::channel(false);
        let sources = Sources { runtime, logs_dir: dir.path().join("logs") };
        let service = Service::new(pods.clone(), sources, stopping);
        let server = Server::builder().add_service(StreamsServer::new(service));
        tokio::spawn(server.serve_with_incoming(tokio_stream::wrappers::UnixListenerStream::new(listener)));
        let client = StreamsClient::new(crate::grpc::client::channel(&socket).await.unwrap());
        Self { dir, pods, client, stop }
    }

    fn log(&self, pod: &str, run: &str, lines: &[&str]) {
        let path = self.dir.path().join("logs").join(pod).join(run);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        for line in lines {
            writeln!(file, "2026-11-21T04:00:00.000000000Z stdout F {line}").unwrap();
        }
    }

    async fn logs(&self, request: proto::LogsRequest) -> Result<(Vec<String>, String), Status> {
        let mut stream = self.client.clone().logs(request).await?.into_inner();
        let (mut candidates, mut text) = (Vec::new(), Vec::new());
        while let Some(answer) = stream.message().await? {
            match answer.message.unwrap() {
                proto::logs_response::Message::Chosen(chosen) => candidates = chosen.candidates,
                proto::logs_response::Message::Stdout(bytes)
                | proto::logs_response::Message::Stderr(bytes) => {
                    text.extend(bytes);
                }
            }
        }
        Ok((candidates, String::from_utf8(text).unwrap()))
    }
}

fn ask(pod: &str) -> proto::LogsRequest {
    proto::LogsRequest { pod: pod.into(), ..Default::default() }
}

#[tokio::test]
async fn logs_of_the_run_that_is_meant() {
    let containers = [container("web", "c1"), container("side", "c2")];
    let agent = Agent::start(vec![pod("shop", "cart", "u1", &containers)], None).await;
    agent.log("shop_cart_u1", "web/0.log", &["old"]);
    agent.log("shop_cart_u1", "web/1.log", &["a", "b", "c"]);
    let (candidates, text) = agent.logs(ask("cart")).await.unwrap();
    assert_eq!((candidates, text.as_str()), (vec!["web".into(), "side".into()], "a\nb\nc\n"));
    let one = proto::LogsRequest { tail_lines: Some(1), timestamps: true, ..ask("shop/cart") };
    assert_eq!(agent.logs(one).await.unwrap().1, "2026-11-21T04:00:00.000000000Z c\n");
    let cut = proto::LogsRequest { limit_bytes: Some(3), ..ask("u1") };
    assert_eq!(agent.logs(cut).await.unwrap().1, "a\nb");
    let previous = proto::LogsRequest { previous: true, container: "web".into(), ..ask("u1") };
    assert_eq!(agent.logs(previous).await.unwrap(), (vec![], "old\n".into()));
    let error = agent.logs(ask("db")).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::NotFound);
    assert_eq!(error.message(), "pod \"db\" not found: there is shop/cart");
    let late = proto::LogsRequest {
        since: Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 }),
        ..ask("u1")
    };
    assert_eq!(agent.logs(late).await.unwrap_err().code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn a_log_is_followed_until_its_container_or_the_agent_ends() {
    let cart = pod("shop", "cart", "u1", &[container("web", "c1")]);
    let agent = Agent::start(vec![cart.clone()], None).await;
    agent.log("shop_cart_u1", "web/0.log", &["a"]);
    for ends in ["container", "agent"] {
        let follow = proto::LogsRequest { follow: true, tail_lines: Some(0), ..ask("cart") };
        let mut stream = agent.client.clone().logs(follow).await.unwrap().into_inner();
        stream.message().await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        agent.log("shop_cart_u1", "web/0.log", &["b"]);
        let next = tokio::time::timeout(Duration::from_secs(5), stream.message()).await.unwrap();
        let said = next.unwrap().unwrap().message.unwrap();
        assert_eq!(said, proto::logs_response::Message::Stdout(b"b\n".to_vec()));
        if ends == "agent" {
            agent.stop.send_replace(true);
            assert_eq!(stream.message().await.unwrap_err().code(), tonic::Code::Unavailable);
        } else {
            // A new container of the same name is not the one that was followed.
            let successor = pod("shop", "cart", "u1", &[container("web", "c2")]);
            *agent.pods.0.lock() = vec![successor];
            let end = tokio::time::timeout(Duration::from_secs(5), stream.message()).await.unwrap();
            assert_eq!(end.unwrap(), None);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_in_a_real_container() {
    let none = Agent::start(vec![], None).await;
    let error = none.client.clone().exec(tokio_stream::empty()).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::FailedPrecondition);

    let Some(containerd) = Containerd::start() else { return };
    if !containerd.import_image() {
        return;
    }
    let client = Client::new(&containerd.endpoint());
    let uid = "77c5a3c8-0c57-4f6b-9e8e-2a4e0d3f5b61";
    let config = sandbox_config("web-0", uid, &format!("{}/pod{uid}", containerd.cgroup_root()));
    let sandbox = client.run_sandbox(config.clone()).await.unwrap();
    let id = client.create_container(&sandbox, container_config("main"), config).await.unwrap();
    client.start_container(&id).await.unwrap();
    let waiting = ContainerState::Waiting { reason: WaitingReason::CrashLoopBackOff, message: String::new() };
    let crashed = ContainerView { state: waiting, ..container("crashed", "") };
    let agent = Agent::start(
        vec![pod("shop", "cart", "u1", &[container("main", &id), crashed])],
        Some(client.clone()),
    )
    .await;

    let exec = async |start: proto::ExecStart, input: &[proto::exec_request::Message]| {
        use proto::exec_response::Message::{Chosen, Ended, Stderr, Stdout};
        let (sender, requests) = tokio::sync::mpsc::channel(16);
        let start = proto::exec_request::Message::Start(proto::ExecStart { pod: "cart".into(), ..start });
        for message in [start].iter().chain(input) {
            sender.send(proto::ExecRequest { message: Some(message.clone()) }).await.unwrap();
        }
        let mut answers = agent.client.clone().exec(ReceiverStream::new(requests)).await?.into_inner();
        let mut said = (Vec::new(), String::new(), String::new(), -1);
        while let Some(answer) = answers.message().await? {
            match answer.message.unwrap() {
                Chosen(chosen) => said.0 = chosen.candidates,
                Stdout(bytes) => said.1 += &String::from_utf8(bytes).unwrap(),
                Stderr(bytes) => said.2 += &String::from_utf8(bytes).unwrap(),
                Ended(ended) => said.3 = ended.exit_code,
            }
        }
        Ok::<_, Status>(said)
    };
    let shell = |script: &str| proto::ExecStart {
        command: ["/bin/busybox", "sh", "-c", script].map(String::from).to_vec(),
        ..Default::default()
    };
    let both = vec!["main".to_owned(), "crashed".to_owned()];
    let said = exec(shell("echo out; echo err >&2; exit 3"), &[]).await.unwrap();
    assert_eq!(said, (both, "out\n".into(), "err\n".into(), 3));
    let cat = proto::ExecStart { stdin: true, container: "main".into(), ..shell("cat; exit 4") };
    let input = [
        proto::exec_request::Message::Stdin(b"hello\n".to_vec()),
        proto::exec_request::Message::CloseStdin(proto::CloseStdin {}),
    ];
    assert_eq!(exec(cat, &input).await.unwrap(), (vec![], "hello\n".into(), String::new(), 4));
    let size = Some(proto::TerminalSize { columns: 91, rows: 17 });
    // The runtime sets the size a moment after the start.
    let script = "while test \"$(stty size)\" != '17 91'; do usleep 10000; done; test -t 1";
    let tty = proto::ExecStart { tty: true, stdin: true, size, ..shell(script) };
    assert_eq!(exec(tty, &[]).await.unwrap().3, 0);
    let missing = proto::ExecStart { command: vec!["/none".into()], ..Default::default() };
    let error = exec(missing, &[]).await.unwrap_err();
    assert!(error.message().contains("/none"), "{error}");
    let crashed = proto::ExecStart { container: "crashed".into(), ..shell("true") };
    assert_eq!(
        exec(crashed, &[]).await.unwrap_err().message(),
        "container \"crashed\" in pod shop/cart is not running: it is waiting (CrashLoopBackOff)"
    );
    assert_eq!(
        exec(proto::ExecStart::default(), &[]).await.unwrap_err().code(),
        tonic::Code::InvalidArgument
    );
    client.remove_sandbox(&sandbox).await.unwrap();
}
