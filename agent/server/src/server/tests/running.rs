//! A running server, with stand-ins for the API server and the runtime, and its clients.

use super::*;

/// The token `TOKEN` is of `alice`, who may only read metrics; `admin` may do everything.
pub struct Api;

#[async_trait]
impl Tokens for Api {
    async fn user(&self, token: &str) -> Result<Option<User>, ReviewError> {
        Ok((token == "TOKEN").then(|| User { name: "alice".into(), ..User::default() }))
    }
}

#[async_trait]
impl Permissions for Api {
    async fn allowed(&self, user: &User, access: &Access) -> Result<bool, ReviewError> {
        Ok(user.name == "admin" || access.subresource == "metrics")
    }
}

/// A runtime whose streaming server is a fixture of the test.
pub struct Fake {
    pub streaming: SocketAddr,
    pub asked: Mutex<Vec<String>>,
}

impl Fake {
    pub fn url(&self, what: String) -> Result<String, RuntimeError> {
        self.asked.lock().push(what);
        Ok(format!("http://{}/token", self.streaming))
    }
}

#[async_trait]
impl Runtime for Fake {
    async fn exec(
        &self,
        id: &str,
        command: &[String],
        streams: StreamOptions,
    ) -> Result<String, RuntimeError> {
        self.url(format!("exec {id} {command:?} {streams:?}"))
    }

    async fn attach(&self, id: &str, streams: StreamOptions) -> Result<String, RuntimeError> {
        self.url(format!("attach {id} {streams:?}"))
    }

    async fn port_forward(&self, sandbox: &str, ports: &[i32]) -> Result<String, RuntimeError> {
        self.url(format!("forward {sandbox} {ports:?}"))
    }

    async fn run(&self, _: &str, command: &[String]) -> Result<ExecOutput, RuntimeError> {
        let exit_code = i32::from(command[0] == "false");
        Ok(ExecOutput { exit_code, stdout: command.join(",").into_bytes(), stderr: b"!".to_vec() })
    }
}

pub struct Pods(pub Mutex<Vec<Arc<PodView>>>);

impl AgentState for Pods {
    fn snapshot(&self) -> Arc<Snapshot> {
        unreachable!("the shared routes are a stand-in")
    }

    fn status(&self) -> Status {
        unreachable!("the shared routes are a stand-in")
    }

    fn pods(&self) -> Vec<Arc<PodView>> {
        self.0.lock().clone()
    }
}

/// A server on a loopback port, and what its clients need.
pub struct Fixture {
    pub address: SocketAddr,
    pub own: CertificateDer<'static>,
    pub authority: CertifiedIssuer<'static, KeyPair>,
    pub dir: tempfile::TempDir,
    pub pods: Arc<Pods>,
    pub runtime: Arc<Fake>,
    pub stop: watch::Sender<bool>,
}

impl Fixture {
    pub async fn start(change: impl FnOnce(&mut ServerSettings, &mut Limits)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (mut settings, mut limits) = (ServerSettings::default(), Limits::default());
        change(&mut settings, &mut limits);
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let ca_file = dir.path().join("ca.crt");
        std::fs::write(&ca_file, authority.pem()).unwrap();
        let client_ca = ClientCa::follow(&ca_file);
        let serving = tls::self_signed(&["node-1".into()], &[[127, 0, 0, 1].into()]).unwrap();
        let own = serving.cert[0].clone();
        let serving = watch::channel(Arc::new(serving)).1;
        let acceptor = TlsAcceptor::from(Arc::new(tls::config(&settings, serving).unwrap()));
        let (stop, stopping) = watch::channel(false);
        let pods = Arc::new(Pods(Mutex::new(vec![Arc::new(fixture::pod())])));
        let runtime = Arc::new(Fake { streaming: streaming().await, asked: Mutex::default() });
        let (authentication, authorization) = (&settings.authentication, &settings.authorization);
        let guard = Guard::new(authentication, authorization, Some(Arc::new(Api)), Some(Arc::new(Api)));
        let node = Node {
            state: pods.clone(),
            name: "node-1".into(),
            addresses: Arc::new(|| vec![[192, 0, 2, 1].into()]),
            shared: Router::new().route("/metrics", axum::routing::get("the metrics\n")),
            runtime: Some(runtime.clone()),
            logs_dir: dir.path().join("pods"),
            system_logs_dir: dir.path().to_owned(),
            configz: r#"{"kubeletconfig":{}}"#.into(),
            checks: Checks::new(nodewarden_tasks::parts::Parts::default()),
        };
        let gate = Gate { guard: Arc::new(guard), client_ca: Some(client_ca.clone()) };
        let server = Arc::new(Server::new(node, settings, gate, stopping.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(listen::serve(listener, acceptor, server, limits, stopping));
        let this = Self { address, own, authority, dir, pods, runtime, stop };
        // The file of the certificates is read in the background.
        let admin = this.certificate("admin").0;
        while client_ca.user(std::slice::from_ref(&admin)).is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        this
    }

    pub fn certificate(&self, name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let own = params.signed_by(&key, &self.authority).unwrap().der().clone();
        (own, PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())))
    }

    /// A connection of the client that this certificate names, or of one without.
    pub async fn connect(&self, name: Option<&str>) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.own.clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(tls::provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match name.map(|name| self.certificate(name)) {
            Some((own, key)) => config.with_client_auth_cert(vec![own], key).unwrap(),
            None => config.with_no_client_auth(),
        };
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("node-1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// Status and body of the answer to this request.
    pub async fn ask(&self, name: Option<&str>, request: &str) -> (u16, String) {
        let mut stream = self.connect(name).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut all = Vec::new();
        // A connection that is cut ends without the end of TLS.
        let _ = stream.read_to_end(&mut all).await;
        let all = String::from_utf8(all).unwrap();
        let (head, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, body.to_owned())
    }

    pub async fn get(&self, path: &str) -> (u16, String) {
        self.ask(Some("admin"), &format!("GET {path} HTTP/1.0\r\n\r\n")).await
    }
}

/// A streaming server: it answers a request to upgrade, sends the head of that request, and then what it
/// gets.
pub async fn streaming() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                              X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n";
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.write_all(&head).await.unwrap();
                let (mut reader, mut writer) = stream.into_split();
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
            });
        }
    });
    address
}
