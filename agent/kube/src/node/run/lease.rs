//! Renews the lease.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use nodewarden_model::backoff::Backoff;
use nodewarden_tasks::parts::Pulse;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{info, warn};

use super::super::watch::Seen;
use super::{CALL, NodeSync};
use crate::by_value::{Api, ByValue};
use crate::lease::{NAMESPACE, renew_interval, renewed};

/// The waits after failures, at most the interval of renewals (kubelet: 200 ms to 7 s).
const AGAIN: Backoff = Backoff::doubling(Duration::from_millis(200), Duration::from_secs(7));

impl NodeSync {
    /// Claims the name and renews the lease. Returns, with who has it, if the name is another agent's.
    pub(super) async fn keep_lease(&self, pulse: &Pulse) -> String {
        let deps = &self.deps;
        let interval = renew_interval(deps.lease);
        let mut failures: u32 = 0;
        let mut known = match self.claim(pulse).await {
            Ok(lease) => lease,
            Err(holder) => return holder,
        };
        loop {
            pulse.progress();
            let begun = Instant::now();
            match self.write(known.as_ref()).await {
                Ok(lease) => {
                    known = Some(lease);
                    if failures > 0 {
                        info!("the node's lease is renewed again");
                    }
                    failures = 0;
                    deps.connection.claimed().send_if_modified(|claimed| !std::mem::replace(claimed, true));
                    sleep_until(begun + interval).await;
                }
                // Deleted, or written by another client: the name is claimed again.
                Err(Failure::Stale) => match self.claim(pulse).await {
                    Ok(lease) => known = lease,
                    Err(holder) => return holder,
                },
                Err(Failure::Other(error)) => {
                    if failures == 0 {
                        warn!("the node's lease cannot be renewed: {error}");
                    }
                    sleep(AGAIN.nth(failures).min(interval)).await;
                    failures += 1;
                }
            }
        }
    }

    async fn write(&self, known: Option<&Lease>) -> Result<Lease, Failure> {
        let (deps, connection) = (&self.deps, &self.deps.connection);
        let node = match &*self.to.borrow() {
            Seen::Node(node) => node.metadata.uid.clone(),
            _ => None,
        };
        let name = connection.node();
        let lease = renewed(known, name, &deps.identity, node.as_deref(), deps.lease, Timestamp::now());
        let lease = ByValue(lease);
        let api = Api::<Lease>::namespaced(connection.client(), NAMESPACE);
        let params = PostParams::default();
        let written = timeout(CALL, async {
            match known {
                Some(_) => api.replace(name, &params, &lease).await,
                None => api.create(&params, &lease).await,
            }
        });
        match written.await {
            Ok(Ok(ByValue(lease))) => Ok(Lease { metadata: slim(lease.metadata), ..lease }),
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) && known.is_some() => {
                Err(Failure::Stale)
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(Failure::Stale),
            Ok(Err(error)) => Err(Failure::Other(error.to_string())),
            Err(_) => Err(Failure::Other(format!("no answer within {} s", CALL.as_secs()))),
        }
    }
}

/// Without what is only for other writers.
fn slim(metadata: ObjectMeta) -> ObjectMeta {
    ObjectMeta { managed_fields: None, ..metadata }
}

enum Failure {
    /// The lease is not as it was known.
    Stale,
    Other(String),
}
