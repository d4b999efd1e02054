//! The node's lease in `kube-node-lease`: says that the node is alive, and whose the node's name is.
//!
//! A kubelet's lease names only the node as its holder. The agent writes [`HOLDER`] beside it: an identity
//! that is kept in its state directory, so that two agents with one node name can tell each other apart.
//! [`claim`] decides whether this agent may use the name:
//!
//! - without a lease, with its own identity in it, or with that of a kubelet of this boot of this machine: at
//!   once;
//! - while another holder renews the lease: never, and the agent ends;
//! - if the lease stays as it is: when its holder has had the time to renew it. Clocks differ between
//!   machines, so a lease that looks expired is still watched for longer than a living holder waits between
//!   two renewals.

pub mod claim;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};

/// The namespace of the leases of nodes.
pub const NAMESPACE: &str = "kube-node-lease";
/// The annotation with the identity of the agent that holds the lease.
pub const HOLDER: &str = "nodewarden.io/holder";

/// A lease is renewed every quarter of its duration (kubelet `nodeLeaseRenewIntervalFraction`).
pub fn renew_interval(duration: Duration) -> Duration {
    duration / 4
}

/// The lease as it has to be written: a new one, or `known` with a new time. `owner` is the uid of the node
/// object, which the lease is removed with.
pub fn renewed(
    known: Option<&Lease>,
    node: &str,
    identity: &str,
    owner: Option<&str>,
    duration: Duration,
    now: Timestamp,
) -> Lease {
    let mut lease = known.cloned().unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(node.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    });
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(HOLDER.to_owned(), identity.to_owned());
    if let Some(uid) = owner {
        lease.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: node.to_owned(),
            uid: uid.to_owned(),
            ..OwnerReference::default()
        }]);
    }
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(node.to_owned()),
        lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
        renew_time: Some(MicroTime(microseconds(now))),
        ..lease.spec.unwrap_or_default()
    });
    lease
}

/// The identity in a lease.
pub fn holder(annotations: Option<&BTreeMap<String, String>>) -> Option<&str> {
    annotations?.get(HOLDER).map(String::as_str)
}

/// The time in whole microseconds, as leases have it.
fn microseconds(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_made_and_renewed() {
        let (first, later) = (Timestamp::from_second(10).unwrap(), Timestamp::from_second(20).unwrap());
        let duration = Duration::from_secs(40);
        let new = renewed(None, "n", "me", None, duration, first);
        assert_eq!(new.metadata.owner_references, None);
        let spec = new.spec.as_ref().unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("n"), Some(40)));
        assert_eq!(holder(new.metadata.annotations.as_ref()), Some("me"));
        let mut known = new.clone();
        known.metadata.resource_version = Some("7".into());
        let again = renewed(Some(&known), "n", "me", Some("uid"), duration, later);
        assert_eq!(again.metadata.resource_version.as_deref(), Some("7"));
        assert_eq!(again.metadata.owner_references.as_ref().unwrap()[0].uid, "uid");
        assert_eq!(again.spec.unwrap().renew_time.unwrap().0, later);
        assert_eq!(renew_interval(duration), Duration::from_secs(10));
    }
}
