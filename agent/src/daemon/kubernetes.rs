//! The node in a cluster: the connection to the API server, the node object with its lease, and the
//! certificates.

mod identity;
mod readings;
mod runtime;
mod system;

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::context::Context;
use super::error::DaemonError;
use super::node_server;
use nodewarden_admission::{Admission, no_execute};
use nodewarden_config::{Config, Mode};
use nodewarden_hierarchy::node_name;
use nodewarden_kube::Connection;
use nodewarden_kube::credentials::{self, Renewal};
use nodewarden_kube::events::Kind;
use nodewarden_kube::node::run::NodeObject;
use nodewarden_kube::node::{self, Deps, NodeEvent, NodeFacts, Pace, Running};
use nodewarden_kube::serving::{self, ServingCertificate};
use nodewarden_model::Detail;
use nodewarden_server::tls::{self, Serving};
use nodewarden_tasks::parts;

pub use readings::Sources;

/// How long a task here may work without giving its thread back.
const LIMIT: Duration = Duration::from_secs(60);

/// The tasks here, as parts of the agent.
const LABELS: &str = "labels and taints";
const ADDRESSES: &str = "addresses of the certificate";
const CERTIFICATE: &str = "certificate of the server";

/// The node object and its lease, which are kept until this is dropped.
pub struct NodeHandle {
    running: Running,
    follows: Option<JoinHandle<()>>,
}

impl NodeHandle {
    /// The node object, whenever it changes.
    pub fn nodes(&self) -> NodeObject {
        self.running.nodes()
    }
}

impl Drop for NodeHandle {
    fn drop(&mut self) {
        if let Some(task) = &self.follows {
            task.abort();
        }
    }
}

/// The connection to the API server and what renews its credentials; `None` in mode observe and without
/// credentials. The server need not be reachable.
///
/// # Errors
/// The credentials cannot be read.
pub fn connect(config: &Config, runtime: &Handle) -> Result<Option<(Connection, Renewal)>, DaemonError> {
    if config.mode == Mode::Observe || !config.kubernetes.connects() {
        return Ok(None);
    }
    let node = node_name(config);
    // A refused eviction (429) is an answer, which is not to be asked for fifteen times; only mode augment
    // asks for evictions.
    let is_beside = config.mode == Mode::Augment;
    let connecting = credentials::connect(&config.kubernetes, &node, !is_beside);
    let (connection, credentials) = runtime.block_on(connecting)?;
    if is_beside {
        connection.beside_a_kubelet();
        info!(node, "a kubelet keeps this node: its pods are followed at the API server");
    } else {
        info!(node, "this is a node of a cluster: the pods of its API server are run too");
    }
    Ok(Some((connection, credentials.start())))
}

/// Starts to keep the node object; `None` without a cluster. `admission` gets the node's labels and taints as
/// the API server has them. Must be called inside a tokio runtime.
///
/// # Errors
/// This agent's identity cannot be kept.
pub fn keep_node(
    context: Context<'_>,
    sources: Sources,
    admission: Option<Admission>,
) -> Result<Option<NodeHandle>, DaemonError> {
    let Some(connection) = context.kubernetes else { return Ok(None) };
    let config = context.config;
    let settings = &config.kubernetes;
    let port = node_server::is_wanted(config).then_some(config.server.port);
    let system = system::facts(&context.observer.facts.kernel_version);
    let identity = identity::keep(&config.state_dir)
        .map_err(|source| DaemonError::StateDir { path: config.state_dir.clone(), source })?;
    let deps = Deps {
        connection: connection.clone(),
        facts: NodeFacts::new(connection.node(), settings, port, system),
        pace: Pace { update: settings.status_update_frequency, report: settings.status_report_frequency },
        lease: settings.lease_duration,
        identity,
        reader: Arc::new(readings::Reader::new(sources, config)),
        report: report(context, connection.node()),
    };
    (deps.report)(NodeEvent { reason: "Starting", message: "Starting kubelet.".to_owned(), warning: false });
    let running = node::start(deps);
    let follow = |admission| spawn(context.runtime, LABELS, follow_node(running.nodes(), admission));
    let follows = admission.map(follow);
    Ok(Some(NodeHandle { running, follows }))
}

/// Starts a task as a part of the agent, whose panic ends it.
fn spawn(
    runtime: &Handle,
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    runtime.spawn(parts::register(name, LIMIT).task(task))
}

/// Gives admission the labels and taints of the node object whenever they change.
async fn follow_node(mut nodes: NodeObject, admission: Admission) {
    let mut known = None;
    loop {
        let now = nodes.get().map(|node| {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref());
            (node.metadata.labels.clone().unwrap_or_default(), no_execute(taints.unwrap_or_default()))
        });
        if let Some(now) = now.filter(|now| known.as_ref() != Some(now)) {
            known = Some(now.clone());
            admission.set_node(now.0, now.1);
        }
        if !nodes.changed().await {
            return;
        }
    }
}

/// Writes the node's events into the journal and to the API server.
fn report(context: Context<'_>, node: &str) -> Box<dyn Fn(NodeEvent) + Send + Sync> {
    let (journal, events, node) = (context.journal.clone(), context.events.clone(), node.to_owned());
    Box::new(move |event| {
        let kind = if event.warning { Kind::Warning } else { Kind::Normal };
        events.node(&node, kind, event.reason, event.message.clone());
        if event.warning {
            warn!("{}", event.message);
        } else {
            info!("{}", event.message);
        }
        let detail = Detail::Agent { reason: event.reason.into(), message: event.message };
        journal.append(Timestamp::now(), "", None, detail);
    })
}

/// The serving certificate of the node's server, renewed as long as there is a receiver, and when the
/// addresses in the node's status change. Must be called inside a tokio runtime.
///
/// # Errors
/// The given files are no certificate and key, or none can be made.
pub fn serving_certificate(context: Context<'_>, nodes: Option<NodeObject>) -> Result<Serving, DaemonError> {
    let config = context.config;
    let connection = context.kubernetes.cloned();
    // With a node object only its addresses count, as for a kubelet: before it is known nothing is requested.
    let known = if nodes.is_some() { Vec::new() } else { addresses(config) };
    let (moves, addresses) = watch::channel(known);
    if let Some(nodes) = nodes {
        spawn(context.runtime, ADDRESSES, serving::follow_addresses(nodes, moves));
    }
    let node = node_name(config);
    let started = serving::start(&config.kubernetes, &node, addresses, connection);
    let (mut certificates, provider) = context.runtime.block_on(started)?;
    let certified = |own: &ServingCertificate| tls::certified(own.chain.clone(), own.key.clone_key());
    let first = certified(&certificates.borrow_and_update())?;
    let (to, serving) = watch::channel(Arc::new(first));
    spawn(context.runtime, CERTIFICATE, async move {
        let _provider = provider;
        follow_certificates(certificates, to, certified).await;
    });
    Ok(serving)
}

/// Gives each new certificate to the server, as `certified` makes a key of it, while there is a receiver.
async fn follow_certificates<C, K, E: Display>(
    mut certificates: watch::Receiver<Arc<C>>,
    to: watch::Sender<Arc<K>>,
    certified: impl Fn(&C) -> Result<K, E>,
) {
    loop {
        tokio::select! {
            changed = certificates.changed() => match changed {
                Ok(()) => {}
                Err(_) => return,
            },
            () = to.closed() => return,
        }
        match certified(&certificates.borrow_and_update()) {
            Ok(key) => _ = to.send_replace(Arc::new(key)),
            Err(error) => warn!("the serving certificate stays as it was: {error}"),
        }
    }
}

/// The addresses under which the node's server is reached.
fn addresses(config: &Config) -> Vec<IpAddr> {
    let given: Vec<IpAddr> =
        config.kubernetes.node_ips.iter().copied().filter(|ip| !ip.is_unspecified()).collect();
    if given.is_empty() { nodewarden_machine::node::addresses::node_addresses() } else { given }
}

#[cfg(test)]
mod tests {
    use nodewarden_tasks::parts::Parts;

    use super::*;

    fn problem(name: &str) -> Option<String> {
        Parts::of_process().health().into_iter().find(|one| one.part == name)?.problem
    }

    fn panics() -> u32 {
        // Without the message and the backtrace, which would load the symbols into this process.
        std::panic::resume_unwind(Box::new("planted"))
    }

    #[tokio::test]
    async fn a_panic_of_a_task_here_is_noticed() {
        for name in [LABELS, ADDRESSES] {
            let task = spawn(&Handle::current(), name, async { _ = panics() });
            assert!(task.await.unwrap_err().is_panic());
            assert!(problem(name).is_some_and(|problem| problem.starts_with("panicked")), "{name}");
        }
        let (renewed, certificates) = watch::channel(Arc::new(1));
        let (to, _serving) = watch::channel(Arc::new(1));
        let certified = |_: &u32| Ok::<u32, String>(panics());
        let follows =
            spawn(&Handle::current(), CERTIFICATE, follow_certificates(certificates, to, certified));
        renewed.send_replace(Arc::new(2));
        assert!(follows.await.unwrap_err().is_panic());
        assert!(problem(CERTIFICATE).is_some_and(|problem| problem.starts_with("panicked")));
    }
}
