//! The lifecycle hooks postStart and preStop (kubelet pkg/kubelet/lifecycle/handlers.go).

mod http;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{self, Lifecycle, LifecycleHandler};

use crate::http_get::HttpError;
use nodewarden_cri::{Client, RuntimeError};
use nodewarden_manifest::HttpGetAction;
use nodewarden_manifest::Pod;
use nodewarden_manifest::find;

/// Maximum number of bytes of a command's output in an error.
const SHOWN: usize = 1024;

/// The action of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handler {
    /// A command in the container; exit status 0 is success.
    Exec(Vec<String>),
    /// A request; every response is success, as in the kubelet.
    HttpGet(HttpGetAction),
    /// Waits this long and succeeds.
    Sleep(Duration),
}

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The runtime could not run the command, or did not report its end.
    #[error("exec hook {command:?}: {source}")]
    Runtime {
        /// Program and arguments.
        command: Vec<String>,
        /// The failed call.
        source: RuntimeError,
    },
    /// The command ended with an exit code other than 0.
    #[error("exec hook {command:?} exited with {exit_code}, message: {output:?}")]
    Failed {
        /// Program and arguments.
        command: Vec<String>,
        /// The exit code.
        exit_code: i32,
        /// The first 1024 bytes of its output, stdout before stderr.
        output: String,
    },
    /// The request could not be sent or got no response.
    #[error("httpGet hook: {0}")]
    Http(#[from] HttpError),
    /// The request names no host, and the pod has no address yet.
    #[error("httpGet hook: the pod has no address")]
    NoAddress,
    /// The hook was still running when this limit was over.
    #[error("the hook did not complete within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
}

/// Result of a command in a container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executed {
    /// The exit code; 0 is success.
    pub exit_code: i32,
    /// Its output, stdout before stderr.
    pub output: Vec<u8>,
}

/// Runs commands in containers; implemented by the runtime's client.
pub trait Exec: Sync {
    /// # Errors
    /// The runtime could not run the command. A command that ran and failed is an [`Executed`].
    fn execute(
        &self,
        container: &str,
        command: &[String],
        limit: Option<Duration>,
    ) -> impl Future<Output = Result<Executed, RuntimeError>> + Send;
}

impl Exec for Client {
    async fn execute(
        &self,
        container: &str,
        command: &[String],
        limit: Option<Duration>,
    ) -> Result<Executed, RuntimeError> {
        let done = self.exec_sync(container, command, limit).await?;
        Ok(Executed { exit_code: done.exit_code, output: [done.stdout, done.stderr].concat() })
    }
}

/// The hook to run after the container has started, before it is reported as started.
pub fn post_start(pod: &Pod, container: &str) -> Option<Handler> {
    hook(pod, container, |lifecycle| lifecycle.post_start.as_ref())
}

/// The hook to run before the container is stopped.
pub fn pre_stop(pod: &Pod, container: &str) -> Option<Handler> {
    hook(pod, container, |lifecycle| lifecycle.pre_stop.as_ref())
}

fn hook(pod: &Pod, name: &str, which: fn(&Lifecycle) -> Option<&LifecycleHandler>) -> Option<Handler> {
    let (container, _) = find(pod, name)?;
    handler(which(container.lifecycle.as_ref()?)?, &container)
}

/// The action of a handler. Validation has already refused `tcpSocket` (which no kubelet runs) and unknown
/// port names.
fn handler(hook: &LifecycleHandler, container: &v1::Container) -> Option<Handler> {
    if let Some(exec) = &hook.exec {
        return Some(Handler::Exec(exec.command.clone().unwrap_or_default()));
    }
    if let Some(get) = &hook.http_get {
        return Some(Handler::HttpGet(HttpGetAction::of(get, container)?));
    }
    let seconds = hook.sleep.as_ref()?.seconds;
    Some(Handler::Sleep(Duration::from_secs(u64::try_from(seconds).unwrap_or(0))))
}

/// Runs a hook to its end, or until `limit`; a sleep that the limit cuts short is a success.
///
/// # Errors
/// The command could not be run or failed, the request got no response, or the hook took too long.
pub async fn run_hook<E: Exec>(
    handler: &Handler,
    runtime: &E,
    container_id: &str,
    pod_ips: &[IpAddr],
    limit: Option<Duration>,
) -> Result<(), HookError> {
    let run = async {
        match handler {
            Handler::Exec(command) => exec(runtime, container_id, command, limit).await,
            Handler::HttpGet(get) => {
                let default = pod_ips.first().map(ToString::to_string);
                let host = get.host.clone().or(default).ok_or(HookError::NoAddress)?;
                Ok(http::get(get, &host).await?)
            }
            Handler::Sleep(duration) => {
                tokio::time::sleep(limit.map_or(*duration, |limit| limit.min(*duration))).await;
                Ok(())
            }
        }
    };
    match (limit, handler) {
        (None, _) | (_, Handler::Sleep(_)) => run.await,
        (Some(limit), _) => tokio::time::timeout(limit, run).await.unwrap_or(Err(HookError::TimedOut(limit))),
    }
}

async fn exec<E: Exec>(
    runtime: &E,
    container: &str,
    command: &[String],
    limit: Option<Duration>,
) -> Result<(), HookError> {
    let command_of = || command.to_vec();
    match runtime.execute(container, command, limit).await {
        Ok(Executed { exit_code: 0, .. }) => Ok(()),
        Ok(Executed { exit_code, output }) => {
            let end = output.len().min(SHOWN);
            let output = String::from_utf8_lossy(&output[..end]).trim_end().to_owned();
            Err(HookError::Failed { command: command_of(), exit_code, output })
        }
        Err(source) => Err(HookError::Runtime { command: command_of(), source }),
    }
}
