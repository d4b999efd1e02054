//! One run of a probe with its time-out (kubelet pkg/kubelet/prober/prober.go).

mod error;
mod exec;
mod grpc;
mod http;
mod target;
mod tcp;
#[cfg(test)]
mod tests;

use std::fmt;

use futures_util::future::BoxFuture;
use tokio::time::timeout;

pub use error::ProbeError;
pub use target::Target;

use self::exec::Runtime;
use super::Answer;
use nodewarden_cri::Client;
use nodewarden_manifest::{ProbeHandler, ProbeSpec};
use nodewarden_model::Outcome;

/// Maximum number of attempts if the prober itself fails (kubelet `maxProbeRetries`).
const TRIES: usize = 3;
/// Maximum length of an application's output in bytes (kubelet `maxReadLength`).
const LONGEST_OUTPUT: usize = 10 << 10;

/// Runs probes.
pub trait Prober: Send + Sync + 'static {
    /// One run. Dropping the future closes its connection.
    ///
    /// # Errors
    /// Failures of the prober itself; they say nothing about the application and are not counted.
    fn probe<'a>(
        &'a self,
        target: &'a Target,
        spec: &'a ProbeSpec,
    ) -> BoxFuture<'a, Result<Answer, ProbeError>>;
}

/// The prober used in production: commands run through the runtime, the others over the network. Runs share
/// no state.
pub struct Handlers<R = Client> {
    runtime: R,
}

impl Handlers {
    /// A prober whose commands are run by the runtime of this client.
    pub fn new(client: Client) -> Self {
        Self { runtime: client }
    }
}

impl<R> fmt::Debug for Handlers<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers").finish_non_exhaustive()
    }
}

impl<R: Runtime> Prober for Handlers<R> {
    fn probe<'a>(
        &'a self,
        target: &'a Target,
        spec: &'a ProbeSpec,
    ) -> BoxFuture<'a, Result<Answer, ProbeError>> {
        Box::pin(async move {
            let mut tries = 1;
            loop {
                match once(&self.runtime, target, spec).await {
                    Err(error) if error.may_pass() && tries < TRIES => tries += 1,
                    done => return done,
                }
            }
        })
    }
}

/// The large futures are boxed, so that a probe by TCP takes no more memory than it needs.
async fn once<R: Runtime>(runtime: &R, target: &Target, spec: &ProbeSpec) -> Result<Answer, ProbeError> {
    let (address, limit) = (target.address, spec.timeout);
    match &spec.handler {
        ProbeHandler::Exec(command) => {
            Box::pin(exec::probe(runtime, &target.container_id, command, limit)).await
        }
        ProbeHandler::HttpGet(asked) => {
            let done = timeout(limit, Box::pin(http::probe(asked, address))).await;
            done.unwrap_or_else(|_| {
                let url = asked.url(&address.map(|address| address.to_string()).unwrap_or_default());
                let text = format!("Get {url:?}: context deadline exceeded (no answer within {limit:?})");
                Ok(failure(text.as_bytes()))
            })
        }
        ProbeHandler::TcpSocket { host, port } => tcp::probe(host.as_deref(), *port, address, limit).await,
        ProbeHandler::Grpc { port, service } => Box::pin(grpc::probe(address, *port, service, limit)).await,
    }
}

fn success(output: &[u8]) -> Answer {
    Answer { outcome: Outcome::Success, output: text(output) }
}

fn failure(output: &[u8]) -> Answer {
    Answer { outcome: Outcome::Failure, output: text(output) }
}

/// The output as text, cut to [`LONGEST_OUTPUT`] bytes of whole characters.
fn text(output: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(&output[..output.len().min(LONGEST_OUTPUT)]).into_owned();
    text.truncate(text.floor_char_boundary(LONGEST_OUTPUT));
    text
}
