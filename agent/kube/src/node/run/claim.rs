//! Finds out whether the node's name is free.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use nodewarden_tasks::parts::Pulse;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::{CALL, NodeSync};
use crate::by_value::Api;
use crate::credentials::AGAIN;
use crate::lease::NAMESPACE;
use crate::lease::claim::{Claim, Claimant, Seen, claim};

/// How often progress is shown while there are no credentials of the node yet.
const LOOK: Duration = Duration::from_secs(10);

impl NodeSync {
    /// Waits until the name is this agent's: the lease as it is then. The error says who has it.
    pub(super) async fn claim(&self, pulse: &Pulse) -> Result<Option<Lease>, String> {
        while timeout(LOOK, self.deps.connection.identified()).await.is_err() {
            pulse.progress();
        }
        let mut failures = 0;
        let mut first: Option<Seen> = None;
        let mut last: Option<Seen> = None;
        let mut since = Instant::now();
        let mut connection = self.deps.connection.clone();
        loop {
            pulse.progress();
            let (lease, same_boot) = match self.look().await {
                Ok(found) => found,
                Err(error) => {
                    if failures == 0 {
                        warn!("the node's lease cannot be read: {error}");
                    }
                    tokio::select! {
                        () = sleep(AGAIN.nth(failures)) => {}
                        () = connection.renewed() => {}
                    }
                    failures += 1;
                    continue;
                }
            };
            failures = 0;
            let seen = lease.as_ref().map(Seen::of);
            if seen != last {
                since = Instant::now();
                last.clone_from(&seen);
            }
            if first.is_none() {
                first.clone_from(&seen);
            }
            let own = Claimant { identity: &self.deps.identity, same_boot };
            match claim(first.as_ref(), seen.as_ref(), since.elapsed(), own, Timestamp::now()) {
                Claim::Take => return Ok(lease),
                Claim::Refuse => {
                    let holder = seen.and_then(|seen| seen.identity);
                    let holder =
                        holder.map_or("a kubelet".to_owned(), |identity| format!("agent {identity}"));
                    return Err(format!("{holder} renews its lease"));
                }
                Claim::Wait(time) => {
                    if since.elapsed() < Duration::from_secs(1) {
                        info!("the node's lease is another agent's: waiting whether it is renewed");
                    }
                    sleep(time).await;
                }
            }
        }
    }

    /// The lease, and whether the node object was last written on this machine since it was booted.
    async fn look(&self) -> Result<(Option<Lease>, bool), String> {
        let connection = &self.deps.connection;
        let leases = Api::<Lease>::namespaced(connection.client(), NAMESPACE);
        let lease = answer(leases.get_opt(connection.node())).await?.map(|lease| lease.0);
        let kubelets = lease.as_ref().is_some_and(|lease| Seen::of(lease).identity.is_none());
        if !kubelets {
            return Ok((lease, false));
        }
        let node = answer(Api::<Node>::all(connection.client()).get_opt(connection.node())).await?;
        let info = node.and_then(|node| node.0.status).and_then(|status| status.node_info);
        let boot = &self.deps.facts.system.boot_id;
        Ok((lease, info.is_some_and(|info| info.boot_id == *boot && !boot.is_empty())))
    }
}

/// An answer within the time limit.
pub(super) async fn answer<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match timeout(CALL, call).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", CALL.as_secs())),
    }
}
