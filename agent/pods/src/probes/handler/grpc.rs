//! Probes that query the health service of a gRPC server (kubelet pkg/probe/grpc, KEP-2727; grpc.health.v1).

use std::error::Error as _;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use hyper::client::conn::http2;
use hyper::header::USER_AGENT;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{ProbeError, failure, success};
use crate::http_get::{Fault, LocalExecutor, Purpose, Stream, dial};
use crate::probes::{Answer, host_port};
use nodewarden_cri::reason;

/// The pause before the second attempt to connect, and the factor for further ones (grpc
/// doc/connection-backoff.md).
const PAUSE: Duration = Duration::from_secs(1);
const LONGER: f64 = 1.6;

/// Runs the probe: a success if the service reports SERVING; everything else is a failure, including no
/// connection.
///
/// # Errors
/// The pod has no address, or the machine lacks the resources for a connection.
pub(super) async fn probe(
    address: Option<IpAddr>,
    port: u16,
    service: &str,
    limit: Duration,
) -> Result<Answer, ProbeError> {
    let end = Instant::now() + limit;
    let host = address.ok_or(ProbeError::NoAddress)?.to_string();
    let place = host_port(&host, port);
    let stream = match timeout_at(end, connect(&host, port, end)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(fault)) if fault.is_ours() => return Err(ProbeError::Dial(fault)),
        Ok(Err(fault)) => {
            return Ok(failure(format!("error: failed to connect service at {place:?}: {fault}").as_bytes()));
        }
        Err(_) => {
            let text = "context deadline exceeded";
            let text = format!("timeout: failed to connect service {place:?} within {limit:?}: {text}");
            return Ok(failure(text.as_bytes()));
        }
    };
    Ok(match timeout_at(end, check(stream, &place, service)).await {
        Ok(Ok(ServingStatus::Serving)) => success(b"service healthy"),
        Ok(Ok(other)) => {
            failure(format!("service unhealthy (responded with {:?})", other.as_str_name()).as_bytes())
        }
        Ok(Err(status)) => failure(refusal(&status, limit).as_bytes()),
        Err(_) => failure(late(limit).as_bytes()),
    })
}

/// Connects like a gRPC channel: with further attempts after pauses, as long as there is time for one.
async fn connect(host: &str, port: u16, end: Instant) -> Result<Stream, Fault> {
    let mut pause = PAUSE;
    loop {
        match dial(host, port).await {
            Ok((stream, _)) => return Ok(stream),
            Err(fault) if fault.is_ours() || Instant::now() + pause >= end => return Err(fault),
            Err(_) => sleep(pause).await,
        }
        pause = pause.mul_f64(LONGER);
    }
}

async fn check(stream: Stream, place: &str, service: &str) -> Result<ServingStatus, Status> {
    let origin =
        format!("http://{place}").parse::<Uri>().map_err(|error| Status::from_error(error.into()))?;
    let executor = LocalExecutor::default();
    let whole = async {
        let shaken = http2::handshake(executor.clone(), TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(broken)?;
        let service_fn = tower::service_fn(|mut request: Request<tonic::body::Body>| {
            let mut sender = sender.clone();
            request.headers_mut().insert(USER_AGENT, Purpose::Probe.user_agent());
            async move { sender.send_request(request).await }
        });
        let mut client = HealthClient::with_origin(service_fn, origin);
        let asked = HealthCheckRequest { service: service.to_owned() };
        let answer = pin!(client.check(asked));
        match select(answer, connection).await {
            Either::Left((answer, _)) => Ok(answer?.into_inner().status()),
            // A server that does not speak HTTP/2 breaks the connection; the reason is in the connection's
            // error.
            Either::Right((Err(error), _)) => Err(broken(error)),
            Either::Right((Ok(()), answer)) => Ok(answer.await?.into_inner().status()),
        }
    };
    executor.run(whole).await
}

fn broken(error: hyper::Error) -> Status {
    Status::from_error(error.into())
}

fn late(limit: Duration) -> String {
    format!("timeout: health rpc did not complete within {limit:?}")
}

/// The kubelet's message for a failed call.
fn refusal(status: &Status, limit: Duration) -> String {
    match status.code() {
        Code::Unimplemented => format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {}",
            status.message()
        ),
        Code::DeadlineExceeded => late(limit),
        code => {
            // Go spells "Canceled" with one l.
            let code = if code == Code::Cancelled { "Canceled".to_owned() } else { format!("{code:?}") };
            let text = if status.source().is_some() { reason(status) } else { status.message().to_owned() };
            format!("error: health rpc probe failed: rpc error: code = {code} desc = {text}")
        }
    }
}
