//! The gRPC and the HTTP server.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::error;

use super::context::Context;
use super::error::DaemonError;
use super::process::Signals;
use super::state::State;
use nodewarden_api::{grpc, http};
use nodewarden_config::Config;
use nodewarden_cri::Client;
use nodewarden_lifecycle::Adoption;
use nodewarden_machine::unix_socket::Socket;
use nodewarden_model::Detail;
use nodewarden_storage::journal::Journal;

/// The agent is ready after this time even if not every pod of an earlier agent has been looked at.
const ADOPTION: Duration = Duration::from_secs(10);

/// Where the agent is reached. Nothing answers there before [`Servers::start`].
pub struct Endpoints {
    socket: Socket,
    listener: TcpListener,
}

impl Endpoints {
    /// Takes the Unix socket and the HTTP port.
    ///
    /// # Errors
    /// One of them is in use or cannot be made, or the configuration does not allow the HTTP address.
    pub fn claim(config: &Config, runtime: &Handle) -> Result<Self, DaemonError> {
        let socket = Socket::claim(&config.socket).map_err(grpc::GrpcError::from)?;
        let exposure =
            if config.http_allow_remote { http::Exposure::Network } else { http::Exposure::Loopback };
        let listener = runtime.block_on(http::bind(config.http_address, exposure))?;
        Ok(Self { socket, listener })
    }
}

/// The running servers.
pub struct Servers {
    grpc: JoinHandle<Result<(), grpc::GrpcError>>,
    http: JoinHandle<io::Result<()>>,
    /// What `/readyz` answers.
    ready: Arc<AtomicBool>,
    /// True asks both servers to end.
    stop: watch::Sender<bool>,
}

impl Servers {
    /// Serves `state` at `endpoints`. The agent is ready at once, or after the `adoption` of an earlier
    /// agent's pods.
    pub fn start(
        context: Context<'_>,
        endpoints: Endpoints,
        state: State,
        adoption: Option<Adoption>,
    ) -> Self {
        let ready = ready_after(context.runtime, adoption);
        let (stop, stopping) = watch::channel(false);
        let stopped = || {
            let mut stopping = stopping.clone();
            async move {
                let _ = stopping.wait_for(|stop| *stop).await;
            }
        };
        let (state, journal) = (Arc::new(state), context.journal.clone());
        let streams = stream_sources(context.config);
        let grpc = grpc::serve_on(endpoints.socket, state.clone(), journal, streams, stopped());
        let grpc = context.runtime.spawn(grpc);
        let config = context.config;
        let names = config.http_allowed_hosts.iter().cloned();
        let hosts = http::AllowedHosts::new(names.chain([nodewarden_hierarchy::node_name(config)]));
        let http = http::serve(endpoints.listener, state, hosts, ready.clone(), stopped());
        let http = context.runtime.spawn(http);
        Self { grpc, http, ready, stop }
    }

    /// Serves until a signal arrives or a server ends by itself, then ends the servers: they finish open
    /// answers, for 2 s at most. After the early end of one server the other is not waited for.
    ///
    /// # Errors
    /// A server failed.
    pub async fn run_until_signal(self, mut signals: Signals, journal: &Journal) -> Result<(), DaemonError> {
        let Self { mut grpc, mut http, ready, stop } = self;
        let early = tokio::select! {
            () = signals.received() => None,
            ended = &mut grpc => Some(ended.map(|result| result.map_err(DaemonError::from))),
            ended = &mut http => Some(ended.map(|result| result.map_err(DaemonError::Http))),
        };
        ready.store(false, Ordering::Relaxed);
        let detail = Detail::Agent { reason: "Stopping".into(), message: "asked to stop".into() };
        journal.append(Timestamp::now(), "", None, detail);
        stop.send_replace(true);
        match early {
            Some(Ok(result)) => result,
            Some(Err(panic)) => {
                error!(%panic, "a server died");
                Ok(())
            }
            None => {
                let grpc = grpc.await.map_or(Ok(()), |result| result.map_err(DaemonError::from));
                let http = http.await.map_or(Ok(()), |result| result.map_err(DaemonError::Http));
                grpc.and(http)
            }
        }
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
