//! Answers requests: authentication, authorization, and the handlers.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::Response;
use hyper::body::{Body as _, Bytes, Incoming};
use jiff::Timestamp;
use nodewarden_config::ServerSettings;
use nodewarden_cri::RuntimeError;
use nodewarden_kube::pod_object::{self, NodeFacts};
use nodewarden_kube::review::User;
use nodewarden_model::AgentState;
use nodewarden_tasks::blocking;
use tokio::sync::watch;
use tower::ServiceExt;

use crate::checks::Checks;
use crate::guard::{self, Credentials, Guard, Refusal};
use crate::listen::{Answers, Connection};
use crate::pods::{self, NotFound};
use crate::query::{self, Query};
use crate::route::{self, Offered, PodTarget, Route, Target};
use crate::runtime::Runtime;
use crate::tls::client_ca::ClientCa;
use crate::{answer, logs, system_logs, upgrade};

/// The longest body of a request that is taken, in bytes; no handler reads one.
const LONGEST_BODY: u64 = 1 << 20;

/// What the handlers answer from.
pub struct Node {
    /// The agent.
    pub state: Arc<dyn AgentState>,
    /// Name of the node.
    pub name: String,
    /// The node's addresses, the preferred one first. May block.
    pub addresses: Arc<dyn Fn() -> Vec<IpAddr> + Send + Sync>,
    /// Metrics and statistics: the routes of the agent's own HTTP.
    pub shared: Router,
    /// The container runtime; `None` without one.
    pub runtime: Option<Arc<dyn Runtime>>,
    /// `podLogsDir`.
    pub logs_dir: PathBuf,
    /// The directory that `/logs/` shows: `/var/log`.
    pub system_logs_dir: PathBuf,
    /// The answer of `/configz`, in JSON.
    pub configz: Bytes,
    /// What `/healthz` asks.
    pub checks: Checks,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The node's server.
#[derive(Debug)]
pub struct Server {
    node: Node,
    settings: ServerSettings,
    gate: Gate,
    stopping: watch::Receiver<bool>,
}

/// Lets requests in.
#[derive(Debug, Clone)]
pub struct Gate {
    /// Who a request is of, and what it may do.
    pub guard: Arc<Guard>,
    /// Verifies clients' certificates; `None` if none is accepted.
    pub client_ca: Option<ClientCa>,
}

impl Server {
    /// The server of this node. When `stopping` becomes true, streams end.
    pub fn new(node: Node, settings: ServerSettings, gate: Gate, stopping: watch::Receiver<bool>) -> Self {
        Self { node, settings, gate, stopping }
    }
}

impl Answers for Server {
    async fn answer(self: Arc<Self>, connection: Arc<Connection>, request: Request<Incoming>) -> Response {
        let label = label(request.uri().path());
        let response = match self.gate.admit(&connection, &request).await {
            Ok(path) => self.handle(connection, request, &path).await,
            Err(refused) => closing(refused),
        };
        answer::count(label, response.status());
        response
    }
}

impl Server {
    async fn handle(&self, connection: Arc<Connection>, request: Request<Incoming>, path: &str) -> Response {
        let offered = Offered {
            authorized: true,
            debugging: self.settings.debugging_handlers,
            system_logs: self.settings.system_log_handler,
        };
        let query = Query::parse(request.uri().query().unwrap_or_default());
        match route::route(request.method().as_str(), path, offered) {
            Route::Pods => self.pods(false).await,
            Route::RunningPods => self.pods(true).await,
            Route::ContainerLogs(target) => self.container_logs(&connection, &target, &query).await,
            Route::Exec(target) => self.exec(connection, request, &target, &query).await,
            Route::Attach(target) => self.attach(connection, request, &target, &query).await,
            Route::PortForward(target) => self.port_forward(connection, request, &target, &query).await,
            Route::Run(target) => self.run(&target, &query).await,
            Route::Configz => answer::json(self.node.configz.clone()),
            Route::Healthz(check) => self.node.checks.respond(&check, request.uri().query()),
            Route::Slis => self.node.checks.metrics(),
            Route::SystemLogs(path) => system_logs::respond(&self.node.system_logs_dir, &path).await,
            Route::Shared => shared(&self.node.shared, request).await,
            Route::OtherMethod(allowed) => answer::other_method(allowed),
            Route::Disabled(why) => answer::text(StatusCode::METHOD_NOT_ALLOWED, format!("{why}\n")),
            Route::None => answer::text(StatusCode::NOT_FOUND, "404: Page Not Found"),
        }
    }

    /// The list of pods; those of which a container runs, with their names only, if `running`.
    async fn pods(&self, running: bool) -> Response {
        let (state, name, addresses) =
            (self.node.state.clone(), self.node.name.clone(), self.node.addresses.clone());
        let made = blocking::SCRAPES.run(move || {
            let mut pods = if running { state.pods() } else { state.shown_pods() };
            pods.sort_by(|a, b| (&a.pod.namespace, &a.pod.name).cmp(&(&b.pod.namespace, &b.pod.name)));
            let runtime = state.runtime_name();
            let list = match running {
                true => pods::running_list(&pods),
                false => pod_object::list(&pods, &NodeFacts { name, ips: addresses(), runtime }),
            };
            serde_json::to_vec(&list)
        });
        match made.await {
            Ok(Ok(bytes)) => answer::json(bytes),
            Ok(Err(error)) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            Err(error) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }

    async fn container_logs(&self, connection: &Connection, target: &Target, query: &Query) -> Response {
        let options = match query::log_options(query, Timestamp::now()) {
            Ok(options) => options,
            Err(error @ query::QueryError::Decode) => {
                return answer::text(StatusCode::BAD_REQUEST, error.to_string());
            }
            Err(error) => return answer::text(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
        };
        let found = self.find(&target.pod);
        let found =
            found.and_then(|pod| pods::container(&pod, &target.container).cloned().map(|own| (pod, own)));
        let (pod, container) = match found {
            Ok(found) => found,
            Err(error) => return answer::text(StatusCode::NOT_FOUND, error.to_string()),
        };
        // A reader of a log may pause.
        connection.stall.set(self.settings.streaming_idle);
        let (state, stopping) = (self.node.state.clone(), self.stopping.clone());
        logs::respond(state, &self.node.logs_dir, &pod, &container, options, stopping).await
    }

    async fn exec(
        &self,
        connection: Arc<Connection>,
        request: Request<Incoming>,
        target: &Target,
        query: &Query,
    ) -> Response {
        let prepared = async {
            let streams = query::stream_options(query).map_err(|e| refuse(StatusCode::BAD_REQUEST, &e))?;
            let (runtime, pod) = (self.runtime()?, self.find(&target.pod).map_err(|e| not_found(&e))?);
            let container = pods::running(&pod, &target.container).map_err(|e| not_running(&e))?;
            let command: Vec<String> = query.all("command").map(str::to_owned).collect();
            runtime.exec(&container.id, &command, streams).await.map_err(|e| of_runtime(&e))
        };
        match prepared.await {
            Ok(url) => self.stream(connection, request, &url).await,
            Err(refused) => refused,
        }
    }

    async fn attach(
        &self,
        connection: Arc<Connection>,
        request: Request<Incoming>,
        target: &Target,
        query: &Query,
    ) -> Response {
        let prepared = async {
            let mut streams =
                query::stream_options(query).map_err(|e| refuse(StatusCode::BAD_REQUEST, &e))?;
            let (runtime, pod) = (self.runtime()?, self.find(&target.pod).map_err(|e| not_found(&e))?);
            let container = pods::running(&pod, &target.container).map_err(|e| not_running(&e))?;
            // The container has its terminal since its start (kubelet `GetAttach`).
            streams.tty = pods::has_terminal(&pod, &target.container);
            streams.stderr &= !streams.tty;
            runtime.attach(&container.id, streams).await.map_err(|e| of_runtime(&e))
        };
        match prepared.await {
            Ok(url) => self.stream(connection, request, &url).await,
            Err(refused) => refused,
        }
    }

    async fn port_forward(
        &self,
        connection: Arc<Connection>,
        request: Request<Incoming>,
        target: &PodTarget,
        query: &Query,
    ) -> Response {
        let prepared = async {
            let ports = query::ports(query, upgrade::is_websocket(request.headers()));
            let ports = ports.map_err(|e| refuse(StatusCode::BAD_REQUEST, &e))?;
            let (runtime, pod) = (self.runtime()?, self.find(target).map_err(|e| not_found(&e))?);
            let sandbox = pods::sandbox(&pod).map_err(|e| not_running(&e))?;
            runtime.port_forward(sandbox, &ports).await.map_err(|e| of_runtime(&e))
        };
        match prepared.await {
            Ok(url) => self.stream(connection, request, &url).await,
            Err(refused) => refused,
        }
    }

    /// Hands the connection to the runtime. A paused client does not count as stalled.
    async fn stream(&self, connection: Arc<Connection>, request: Request<Incoming>, url: &str) -> Response {
        let idle = self.settings.streaming_idle;
        connection.stall.set(idle);
        let mut stopping = self.stopping.clone();
        let stop = async move {
            let _ = stopping.wait_for(|stop| *stop).await;
        };
        upgrade::proxy(request, url, idle, stop, connection).await
    }

    /// Runs a command, as the kubelet: the words of `cmd`, and an answer with what it wrote.
    async fn run(&self, target: &Target, query: &Query) -> Response {
        let ran = async {
            let (runtime, pod) = (self.runtime()?, self.find(&target.pod).map_err(|e| not_found(&e))?);
            let container = pods::running(&pod, &target.container).map_err(|e| not_running(&e))?;
            let command: Vec<String> = query.first("cmd").split(' ').map(str::to_owned).collect();
            let ended = runtime.run(&container.id, &command).await.map_err(|e| of_runtime(&e))?;
            Ok::<_, Response>((command, ended))
        };
        match ran.await {
            Ok((_, ended)) if ended.exit_code == 0 => answer::json([ended.stdout, ended.stderr].concat()),
            Ok((command, ended)) => {
                let (command, code) = (command.join(" "), ended.exit_code);
                let error = String::from_utf8_lossy(&ended.stderr).into_owned();
                let text = format!("command '{command}' exited with {code}: {error}");
                answer::text(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
            Err(refused) => refused,
        }
    }

    fn find(&self, target: &PodTarget) -> Result<Arc<nodewarden_model::PodView>, NotFound> {
        pods::find(&self.node.state.pods(), target, &self.node.name)
    }

    #[expect(clippy::result_large_err, reason = "the error is the response that is sent")]
    fn runtime(&self) -> Result<&dyn Runtime, Response> {
        let none = || refuse(StatusCode::NOT_IMPLEMENTED, &"the agent has no container runtime");
        self.node.runtime.as_deref().ok_or_else(none)
    }
}

/// The agent's own HTTP, for clients that are let in by the gate.
#[derive(Debug)]
pub struct Authenticated {
    /// Lets requests in.
    pub gate: Gate,
    /// What is answered.
    pub routes: Router,
}

impl Answers for Authenticated {
    async fn answer(self: Arc<Self>, connection: Arc<Connection>, request: Request<Incoming>) -> Response {
        match self.gate.admit(&connection, &request).await {
            Ok(_) => shared(&self.routes, request).await,
            Err(refused) => closing(refused),
        }
    }
}

/// After the refusal of an unauthenticated request the connection ends.
fn closing(mut response: Response) -> Response {
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

impl Gate {
    /// The decoded path of a request that is let in.
    ///
    /// # Errors
    /// The answer to one that is not.
    pub async fn admit(
        &self,
        connection: &Connection,
        request: &Request<Incoming>,
    ) -> Result<String, Response> {
        if request.body().size_hint().lower() > LONGEST_BODY {
            return Err(answer::text(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request has a body that nothing reads",
            ));
        }
        let path = route::decoded(request.uri().path())
            .ok_or_else(|| answer::text(StatusCode::BAD_REQUEST, "the path is not UTF-8"))?;
        let certificate = self.certificate(connection);
        let token = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let credentials =
            Credentials { certificate: certificate.as_ref(), token: token.and_then(guard::bearer) };
        let user = self.guard.authenticate(&credentials).await.map_err(|refusal| refused(&refusal))?;
        if !connection.know() {
            let text = "too many connections are open";
            return Err(answer::text(StatusCode::SERVICE_UNAVAILABLE, text));
        }
        let authorized = self.guard.authorize(&user, request.method().as_str(), &path).await;
        authorized.map(|()| path).map_err(|refusal| refused(&refusal))
    }

    /// The user of the connection's certificate, if that is to be trusted now.
    fn certificate(&self, connection: &Connection) -> Option<User> {
        let ca = self.client_ca.as_ref().filter(|_| !connection.chain.is_empty())?;
        ca.user(&connection.chain).inspect_err(|why| tracing::debug!(why, "a client's certificate")).ok()
    }
}

fn refused(refusal: &Refusal) -> Response {
    let status = match refusal {
        Refusal::Unauthorized { reason } => {
            tracing::debug!(reason, "a request is not authenticated");
            StatusCode::UNAUTHORIZED
        }
        Refusal::Forbidden { .. } => {
            tracing::debug!("{refusal}");
            return answer::text(StatusCode::FORBIDDEN, format!("{refusal}\n"));
        }
        Refusal::Unknown { reason, .. } => {
            tracing::warn!(reason, "{refusal}");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    answer::text(status, refusal.to_string())
}

/// Answers with a handler of the agent's own HTTP.
async fn shared(routes: &Router, request: Request<Incoming>) -> Response {
    let Ok(response) = routes.clone().oneshot(request.map(Body::new)).await;
    response
}

fn refuse(status: StatusCode, error: &dyn std::fmt::Display) -> Response {
    answer::text(status, error.to_string())
}

fn not_found(error: &NotFound) -> Response {
    match error {
        // The kubelet's words for streams.
        NotFound::Pod { .. } => answer::text(StatusCode::NOT_FOUND, "pod does not exist"),
        other => not_running(other),
    }
}

/// The kubelet's status for containers and sandboxes that are not there.
fn not_running(error: &NotFound) -> Response {
    answer::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// An error of the runtime (`streaming.WriteError`).
fn of_runtime(error: &RuntimeError) -> Response {
    let status = if error.is_not_found() { StatusCode::NOT_FOUND } else { StatusCode::INTERNAL_SERVER_ERROR };
    answer::text(status, error.to_string())
}

/// The first part of a path, as the label of metrics: only those that there are.
fn label(path: &str) -> &'static str {
    const PARTS: [&str; 13] = [
        "pods",
        "runningpods",
        "containerLogs",
        "exec",
        "attach",
        "portForward",
        "run",
        "configz",
        "healthz",
        "logs",
        "metrics",
        "stats",
        "spec",
    ];
    let first = path.strip_prefix('/').unwrap_or(path).split('/').next().unwrap_or_default();
    PARTS.into_iter().find(|part| *part == first).unwrap_or("other")
}

#[cfg(test)]
mod tests;
