//! The gRPC and the HTTP server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};

use super::context::Context;
use super::error::DaemonError;
use super::kubernetes;
use super::node_server::{self, NodePorts};
use super::process::Signals;
use super::state::State;
use super::watchdog;
use nodewarden_api::{grpc, http};
use nodewarden_config::Config;
use nodewarden_cri::Client;
use nodewarden_kube::node::run::NodeObject;
use nodewarden_lifecycle::Adoption;
use nodewarden_machine::unix_socket::Socket;
use nodewarden_model::{AgentState, Detail};
use nodewarden_storage::journal::Journal;
use nodewarden_tasks::parts::{Parts, Pulse};
use nodewarden_tasks::pause::every;

/// The agent is ready after this time even if not every pod of an earlier agent has been looked at.
const ADOPTION: Duration = Duration::from_secs(10);

/// How often the server thread shows that it runs, and how long it may take for that.
/// Together with what else is done each minute: it wakes no thread of its own.
const BEAT: Duration = Duration::from_secs(60);
const BEAT_LIMIT: Duration = Duration::from_secs(90);

/// Where the agent is reached. Nothing answers there before [`Servers::start`].
pub struct Endpoints {
    socket: Socket,
    listener: TcpListener,
    node: NodePorts,
}

impl Endpoints {
    /// Takes the Unix socket and the HTTP ports, which are served by threads of `http`.
    ///
    /// # Errors
    /// One of them is in use or cannot be made, or the configuration does not allow the HTTP address.
    pub fn claim(config: &Config, http: &Handle) -> Result<Self, DaemonError> {
        let socket = Socket::claim(&config.socket).map_err(grpc::GrpcError::from)?;
        let exposure =
            if config.http_allow_remote { http::Exposure::Network } else { http::Exposure::Loopback };
        let listener = http.block_on(http::bind(config.http_address, exposure))?;
        let node = http.block_on(NodePorts::claim(config))?;
        Ok(Self { socket, listener, node })
    }
}

/// The running servers.
pub struct Servers {
    grpc: JoinHandle<Result<(), grpc::GrpcError>>,
    http: JoinHandle<()>,
    parts: Parts,
    /// What `/readyz` answers.
    ready: Arc<AtomicBool>,
    /// True asks both servers to end.
    stop: watch::Sender<bool>,
}

impl Servers {
    /// Serves `state` at `endpoints`. The agent is ready at once, or after the `adoption` of an earlier
    /// agent's pods. `nodes`: the node object, in a cluster.
    pub fn start(
        context: Context<'_>,
        endpoints: Endpoints,
        state: State,
        adoption: Option<Adoption>,
        nodes: Option<NodeObject>,
    ) -> Result<Self, DaemonError> {
        let ready = ready_after(context.runtime, adoption);
        let (stop, stopping) = watch::channel(false);
        let stopped = || {
            let mut stopping = stopping.clone();
            async move {
                let _ = stopping.wait_for(|stop| *stop).await;
            }
        };
        let (state, journal): (Arc<dyn AgentState>, _) = (Arc::new(state), context.journal.clone());
        let streams = stream_sources(context.config);
        let sources = http::PageSources { journal: journal.clone(), stopping: stopping.clone() };
        let grpc = grpc::serve_on(endpoints.socket, state.clone(), journal, streams, stopped());
        let grpc = context.runtime.spawn(grpc);
        let config = context.config;
        let names = config.http_allowed_hosts.iter().cloned();
        let hosts = http::AllowedHosts::new(names.chain([nodewarden_hierarchy::node_name(config)]));
        let parts = Parts::of_process().clone();
        let routes = http::routes(state.clone(), ready.clone(), parts.clone(), sources);
        let serving = match node_server::is_wanted(config) {
            true => Some(kubernetes::serving_certificate(context, nodes)?),
            false => None,
        };
        let setup = node_server::Setup {
            config,
            node: nodewarden_hierarchy::node_name(config),
            state,
            routes: routes.clone(),
            connection: context.kubernetes.cloned(),
            serving,
            stopping: stopping.clone(),
        };
        let own = node_server::OwnHttp { listener: endpoints.listener, hosts };
        let http = {
            let _in_runtime = context.http.enter();
            tokio::spawn(node_server::start(setup, endpoints.node, own)?)
        };
        context.runtime.spawn(parts.register("server threads", BEAT_LIMIT).task_with(beat));
        Ok(Self { grpc, http, parts, ready, stop })
    }

    /// Serves until a signal arrives, or until a server or another part of the agent ends by itself, then
    /// ends the servers: they finish open answers, for 2 s at most. After an early end the others are not
    /// waited for.
    ///
    /// # Errors
    /// A server or another part ended by itself.
    pub async fn run_until_signal(self, mut signals: Signals, journal: &Journal) -> Result<(), DaemonError> {
        let Self { mut grpc, mut http, parts, ready, stop } = self;
        let early = tokio::select! {
            () = signals.received() => None,
            ended = &mut grpc => Some(match ended {
                Ok(Err(error)) => error.into(),
                Ok(Ok(())) => server_ended("gRPC", None),
                Err(panic) => server_ended("gRPC", Some(panic)),
            }),
            ended = &mut http => Some(server_ended("HTTP", ended.err())),
            ended = parts.ended() => Some(DaemonError::Part(ended)),
        };
        watchdog::stopping();
        ready.store(false, Ordering::Relaxed);
        let message = early.as_ref().map_or_else(|| "asked to stop".to_owned(), ToString::to_string);
        let detail = Detail::Agent { reason: "Stopping".into(), message };
        journal.append(Timestamp::now(), "", None, detail);
        stop.send_replace(true);
        match early {
            Some(error) => Err(error),
            None => {
                let grpc = grpc.await.map_or(Ok(()), |result| result.map_err(DaemonError::from));
                // A panic at the end is in the log.
                let _ = http.await;
                grpc
            }
        }
    }
}

fn server_ended(server: &'static str, panic: Option<JoinError>) -> DaemonError {
    let how = panic.map_or_else(|| "ended by itself".to_owned(), |panic| panic.to_string());
    DaemonError::Server { server, how }
}

/// Shows that tasks are run: stands still when the server thread is blocked.
async fn beat(pulse: Pulse) {
    loop {
        pulse.progress();
        tokio::time::sleep_until(every(BEAT).into()).await;
    }
}

/// A flag that is set once the pods of an earlier agent have been looked at; without any it is set already.
fn ready_after(runtime: &Handle, adoption: Option<Adoption>) -> Arc<AtomicBool> {
    let ready = Arc::new(AtomicBool::new(adoption.is_none()));
    if let Some(adoption) = adoption {
        let ready = ready.clone();
        runtime.spawn(async move {
            adoption.done(ADOPTION).await;
            ready.store(true, Ordering::Relaxed);
        });
    }
    ready
}

/// Where `exec` and `logs` get their streams from.
fn stream_sources(config: &Config) -> grpc::streams::Sources {
    let client = |endpoint| Client::new(endpoint).with_request_limit(config.pods.runtime_request_timeout);
    grpc::streams::Sources {
        runtime: config.runtime_endpoint.as_ref().map(client),
        logs_dir: config.pods.logs_dir.clone(),
    }
}

#[cfg(test)]
mod tests {
    use nodewarden_storage::journal::Limits;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_panic_in_a_part_ends_the_agent_with_its_name() {
        nodewarden_tasks::parts::keep_panic_texts();
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(&dir.path().join("journal"), Limits::default()).unwrap();
        let (parts, ready) = (Parts::default(), Arc::new(AtomicBool::new(true)));
        let servers = Servers {
            grpc: tokio::spawn(std::future::pending()),
            http: tokio::spawn(std::future::pending()),
            parts: parts.clone(),
            ready: ready.clone(),
            stop: watch::channel(false).0,
        };
        let part = parts.register("eviction", Duration::from_secs(60));
        let thread = std::thread::spawn(move || {
            let _part = part;
            panic!("planted");
        });
        let signals = Signals::listen().unwrap();
        let ended =
            tokio::time::timeout(Duration::from_secs(10), servers.run_until_signal(signals, &journal));
        let error = ended.await.expect("the agent ends").unwrap_err().to_string();
        assert!(thread.join().is_err());
        assert!(error.starts_with("eviction panicked: planted ("), "{error}");
        assert!(error.ends_with(": the agent ends, to be started again whole"), "{error}");
        assert!(!ready.load(Ordering::Relaxed));
    }
}
