//! The node's server on port 10250, with the read-only port and the health port, and the agent's own HTTP
//! where other machines reach it.

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use nodewarden_api::http::{self, AllowedHosts, Exposure};
use nodewarden_config::{AuthorizationMode, Config, Mode};
use nodewarden_cri::Client;
use nodewarden_kube::Connection;
use nodewarden_kube::review::Reviewer;
use nodewarden_machine::node::addresses::node_addresses;
use nodewarden_model::AgentState;
use nodewarden_server::guard::{Permissions, Tokens};
use nodewarden_server::listen::{self, Answers};
use nodewarden_server::runtime::Runtime;
use nodewarden_server::server::{Authenticated, Gate};
use nodewarden_server::tls::client_ca::ClientCa;
use nodewarden_server::tls::{self, Serving};
use nodewarden_server::{Checks, Guard, Node, Server, configz, health_routes, read_only_routes};
use nodewarden_tasks::parts::{self, Parts};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use super::error::DaemonError;

/// How long one poll of a server's task may take: none of them blocks.
const LIMIT: Duration = Duration::from_secs(60);

/// The node's log files that `/logs/` shows.
const SYSTEM_LOGS: &str = "/var/log";

/// The ports of the node's server. Nothing answers there before [`start`].
#[derive(Default)]
pub struct NodePorts {
    server: Option<TcpListener>,
    read_only: Option<TcpListener>,
    health: Option<TcpListener>,
}

/// Whether there is a node's server: in mode manage, with a kubeconfig or where `enableServer` is true.
pub fn is_wanted(config: &Config) -> bool {
    config.mode == Mode::Manage && config.server.enabled.unwrap_or(config.kubernetes.connects())
}

/// Whether there are the ports that `readOnlyPort` and `healthzPort` name: as in a kubelet, also where
/// `enableServer` is false.
fn has_open_ports(config: &Config) -> bool {
    is_wanted(config) || config.mode == Mode::Manage && config.kubernetes.connects()
}

impl NodePorts {
    /// Takes the ports that the configuration names.
    ///
    /// # Errors
    /// One of them is in use.
    pub async fn claim(config: &Config) -> Result<Self, DaemonError> {
        let settings = &config.server;
        let at = async |address: IpAddr, port: Option<u16>| match port {
            Some(port) => http::bind(SocketAddr::new(address, port), Exposure::Network).await.map(Some),
            None => Ok(None),
        };
        let open = |port: Option<u16>| port.filter(|_| has_open_ports(config));
        Ok(Self {
            server: at(settings.address, is_wanted(config).then_some(settings.port)).await?,
            read_only: at(settings.address, open(settings.read_only_port)).await?,
            health: at(settings.healthz_address, open(settings.healthz_port)).await?,
        })
    }
}

/// What the node's server needs of the rest of the agent.
pub struct Setup<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// Name of the node.
    pub node: String,
    /// The agent, for pods and their logs.
    pub state: Arc<dyn AgentState>,
    /// The agent's own routes.
    pub routes: Router,
    /// The API server; `None` without a kubeconfig.
    pub connection: Option<Connection>,
    /// The serving certificate; `None`: one that the node signs itself.
    pub serving: Option<Serving>,
    /// True asks the servers to end.
    pub stopping: watch::Receiver<bool>,
}

/// The agent's own HTTP.
pub struct OwnHttp {
    /// Where it listens.
    pub listener: TcpListener,
    /// The names under which it is reached.
    pub hosts: AllowedHosts,
}

impl OwnHttp {
    /// Whether its clients are authenticated: those of other machines, unless the configuration says
    /// otherwise.
    fn is_closed(config: &Config) -> bool {
        !config.http_address.ip().to_canonical().is_loopback() && !config.http_allow_anonymous
    }
}

/// Serves the agent's own HTTP.
pub type Serves = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Starts what listens at `ports`; the result serves the agent's own HTTP, with TLS and authentication where
/// other machines reach it. Must be called inside a tokio runtime.
///
/// # Errors
/// TLS cannot be spoken with these settings.
pub fn start(setup: Setup<'_>, ports: NodePorts, own: OwnHttp) -> Result<Serves, DaemonError> {
    let checks = Checks::new(Parts::of_process().clone());
    let Setup { config, node, state, routes, connection, serving, stopping } = setup;
    // The API server knows it by this name.
    let node = connection.as_ref().map_or(node, |connection| connection.node().to_owned());
    if let Some(listener) = ports.health {
        spawn("health port", open(listener, health_routes(&checks), stopping.clone()));
    }
    if let Some(listener) = ports.read_only {
        // No web page is to reach it under a name of its own.
        let routes = http::for_hosts(read_only_routes(&routes, &checks), own.hosts.clone());
        spawn("read-only port", open(listener, routes, stopping.clone()));
    }
    let OwnHttp { listener, hosts } = own;
    let is_closed = OwnHttp::is_closed(config);
    if ports.server.is_none() && !is_closed {
        return Ok(Box::pin(http::serve(listener, routes, hosts, stopped(stopping))));
    }
    let serving = match serving {
        Some(serving) => serving,
        None => self_signed(&node, config)?,
    };
    let acceptor = TlsAcceptor::from(Arc::new(tls::config(&config.server, serving)?));
    let gate = gate(config, connection);
    let own: Serves = match is_closed {
        true => {
            let server = Authenticated { gate: gate.clone(), routes: http::for_hosts(routes.clone(), hosts) };
            Box::pin(closed(listener, acceptor.clone(), server, stopping.clone()))
        }
        false => Box::pin(http::serve(listener, routes.clone(), hosts, stopped(stopping.clone()))),
    };
    if let Some(listener) = ports.server {
        info!(address = ?listener.local_addr().ok(), "the node's server listens");
        let node = Node {
            state,
            name: node,
            addresses: addresses(config),
            shared: routes,
            runtime: runtime(config),
            logs_dir: config.pods.logs_dir.clone(),
            system_logs_dir: PathBuf::from(SYSTEM_LOGS),
            configz: configz::answer(config).to_string().into(),
            checks,
        };
        let server = Server::new(node, config.server.clone(), gate, stopping.clone());
        spawn("node server", closed(listener, acceptor, server, stopping));
    }
    Ok(own)
}

/// Completes when the servers are asked to end.
async fn stopped(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Runs a server as a part of the agent.
fn spawn(name: &'static str, server: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(parts::register(name, LIMIT).task(server));
}

/// Serves without authentication.
async fn open(listener: TcpListener, routes: Router, stopping: watch::Receiver<bool>) {
    http::connections::serve(listener, routes, http::connections::Limits::default(), stopped(stopping)).await;
}

/// Serves with TLS and authentication.
async fn closed(
    listener: TcpListener,
    tls: TlsAcceptor,
    server: impl Answers,
    stopping: watch::Receiver<bool>,
) {
    listen::serve(listener, tls, Arc::new(server), listen::Limits::default(), stopping).await;
}

fn gate(config: &Config, connection: Option<Connection>) -> Gate {
    let settings = &config.server;
    let client_ca = settings.authentication.client_ca.as_deref().map(ClientCa::follow);
    let reviewer = connection.map(Reviewer::new).map(Arc::new);
    if reviewer.is_none() && settings.authorization.mode == AuthorizationMode::Webhook {
        warn!(
            "authorization.mode is Webhook and there is no kubeconfig: the server on port {} allows nothing",
            settings.port
        );
    }
    let tokens = reviewer.clone().map(|own| own as Arc<dyn Tokens>);
    let permissions = reviewer.map(|own| own as Arc<dyn Permissions>);
    let guard = Guard::new(&settings.authentication, &settings.authorization, tokens, permissions);
    Gate { guard: Arc::new(guard), client_ca }
}

/// `--node-ip`, or the node's addresses as they are now.
fn addresses(config: &Config) -> Arc<dyn Fn() -> Vec<IpAddr> + Send + Sync> {
    let given = config.kubernetes.node_ips.clone();
    let given = Some(given).filter(|ips| !ips.is_empty() && ips.iter().all(|ip| !ip.is_unspecified()));
    Arc::new(move || given.clone().unwrap_or_else(node_addresses))
}

/// A connection of its own: a command that takes long holds up no other call.
fn runtime(config: &Config) -> Option<Arc<dyn Runtime>> {
    let endpoint = config.runtime_endpoint.as_ref()?;
    let client = Client::new(endpoint)
        .with_request_limit(config.pods.runtime_request_timeout.max(Duration::from_secs(1)));
    Some(Arc::new(client))
}

/// A certificate for the node's name and the address that it listens at.
fn self_signed(node: &str, config: &Config) -> Result<Serving, DaemonError> {
    let addresses: Vec<IpAddr> = [config.server.address, config.http_address.ip()]
        .into_iter()
        .filter(|ip| !ip.is_unspecified())
        .collect();
    let made = tls::self_signed(&[node.to_owned()], &addresses)?;
    // The receiver keeps the value when the sender is dropped.
    Ok(watch::channel(Arc::new(made)).1)
}

#[cfg(test)]
mod tests {
    use nodewarden_config::{Overrides, parse};

    use super::*;

    #[test]
    fn a_server_is_wanted_with_a_kubeconfig_in_mode_manage() {
        for (text, without, with) in [
            ("nodewarden: {mode: manage}", false, true),
            ("enableServer: true\nnodewarden: {mode: manage}", true, true),
            ("enableServer: false\nnodewarden: {mode: manage}", false, false),
            // The file of a kubelet that is being watched.
            ("enableServer: true\nnodewarden: {mode: observe}", false, false),
        ] {
            let text =
                format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{text}\n");
            let mut config = parse("test", &text, &Overrides::default()).unwrap();
            let alone = is_wanted(&config);
            config.kubernetes.kubeconfig = Some("/node.conf".into());
            assert_eq!((alone, is_wanted(&config)), (without, with), "{text}");
        }
    }

    #[tokio::test]
    async fn the_read_only_and_the_health_port_do_not_depend_on_the_server() {
        for (text, kubeconfig, server, others) in [
            ("nodewarden: {mode: manage}", true, true, true),
            ("enableServer: false\nnodewarden: {mode: manage}", true, false, true),
            ("enableServer: false\nnodewarden: {mode: manage}", false, false, false),
            ("enableServer: true\nnodewarden: {mode: manage}", false, true, true),
            ("nodewarden: {mode: manage}", false, false, false),
            ("enableServer: true\nnodewarden: {mode: observe}", true, false, false),
        ] {
            let text =
                format!("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{text}\n");
            let mut config = parse("test", &text, &Overrides::default()).unwrap();
            config.kubernetes.kubeconfig = kubeconfig.then(|| "/node.conf".into());
            // Any free ones.
            let settings = &mut config.server;
            settings.address = IpAddr::from([127, 0, 0, 1]);
            (settings.port, settings.read_only_port, settings.healthz_port) = (0, Some(0), Some(0));
            let ports = NodePorts::claim(&config).await.unwrap();
            let claimed = [&ports.server, &ports.read_only, &ports.health].map(Option::is_some);
            assert_eq!(claimed, [server, others, others], "{text} {kubeconfig}");
            (config.server.read_only_port, config.server.healthz_port) = (None, None);
            let ports = NodePorts::claim(&config).await.unwrap();
            assert!(ports.read_only.is_none() && ports.health.is_none(), "{text}");
        }
    }
}
