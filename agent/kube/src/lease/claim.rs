//! Whether this agent may use the node's name. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;

use super::{holder, renew_interval};

/// The duration of a lease that does not say its own (the kubelet's default).
const DURATION: Duration = Duration::from_secs(40);

/// What of a lease tells who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The agent's identity in it; `None` for that of a kubelet.
    pub identity: Option<String>,
    /// Changes with every renewal.
    pub version: String,
    /// Its duration.
    pub duration: Duration,
    /// When its holder renewed it, by the holder's clock.
    pub renewed: Option<Timestamp>,
}

impl Seen {
    /// Of a lease as read.
    pub fn of(lease: &Lease) -> Self {
        let spec = lease.spec.as_ref();
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds).and_then(|n| u64::try_from(n).ok());
        Self {
            identity: holder(lease.metadata.annotations.as_ref()).map(str::to_owned),
            version: lease.metadata.resource_version.clone().unwrap_or_default(),
            duration: seconds.filter(|n| *n > 0).map_or(DURATION, Duration::from_secs),
            renewed: spec.and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0),
        }
    }
}

/// This agent, as far as it matters for the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimant<'a> {
    /// Its identity.
    pub identity: &'a str,
    /// Whether the node object was last written on this machine since it was booted
    /// (`status.nodeInfo.bootID`).
    pub same_boot: bool,
}

/// What to do about the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The name is this agent's.
    Take,
    /// Look again after this time.
    Wait(Duration),
    /// Another agent that is alive has it.
    Refuse,
}

/// Decides from the lease as it was `first` seen, as it is `now`, and for how long it has been the same.
pub fn claim(
    first: Option<&Seen>,
    now: Option<&Seen>,
    unchanged: Duration,
    own: Claimant<'_>,
    clock: Timestamp,
) -> Claim {
    let Some(seen) = now else { return Claim::Take };
    match &seen.identity {
        Some(identity) if identity == own.identity => return Claim::Take,
        None if own.same_boot => return Claim::Take,
        _ => {}
    }
    if first.is_some_and(|first| first.version != seen.version) {
        return Claim::Refuse;
    }
    let left = watched(seen, clock).saturating_sub(unchanged);
    if left.is_zero() { Claim::Take } else { Claim::Wait(left.min(LOOK)) }
}

/// How often the lease is read meanwhile.
const LOOK: Duration = Duration::from_secs(2);

/// How long a lease has to stay as it is until its holder counts as gone: for its duration, or, where it
/// looks expired already, for two renewals.
fn watched(seen: &Seen, clock: Timestamp) -> Duration {
    let age = seen.renewed.map(|renewed| clock.duration_since(renewed));
    let expired =
        age.is_none_or(|age| age.as_secs() > i64::try_from(seen.duration.as_secs()).unwrap_or(i64::MAX));
    if expired { renew_interval(seen.duration) * 2 } else { seen.duration }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_use_the_name() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let seen = |identity: Option<&str>, version: &str| Seen {
            identity: identity.map(str::to_owned),
            version: version.to_owned(),
            duration: Duration::from_secs(40),
            renewed: Some(at(1000)),
        };
        let own = Claimant { identity: "me", same_boot: false };
        let here = Claimant { same_boot: true, ..own };
        let (mine, other, kubelet) = (seen(Some("me"), "1"), seen(Some("you"), "1"), seen(None, "1"));
        let (renewed, kubelet_renewed) = (seen(Some("you"), "2"), seen(None, "2"));
        let wait = Claim::Wait(LOOK);
        for (first, now, unchanged, own, clock, expected) in [
            (None, None, 0, own, 1001, Claim::Take),
            (Some(&mine), Some(&mine), 0, own, 1001, Claim::Take),
            (Some(&other), None, 0, own, 1001, Claim::Take),
            // A kubelet ran on this machine until now.
            (Some(&kubelet), Some(&kubelet), 0, here, 1001, Claim::Take),
            // Another agent of this machine is another agent.
            (Some(&other), Some(&other), 0, here, 1001, wait),
            (Some(&kubelet), Some(&kubelet), 0, own, 1001, wait),
            (Some(&kubelet), Some(&kubelet_renewed), 0, own, 1001, Claim::Refuse),
            (Some(&other), Some(&renewed), 0, own, 1001, Claim::Refuse),
            (Some(&other), Some(&other), 39, own, 1039, Claim::Wait(Duration::from_secs(1))),
            (Some(&other), Some(&other), 40, own, 1040, Claim::Take),
            // It looks expired: by another clock it may be alive.
            (Some(&other), Some(&other), 0, own, 5000, wait),
            (Some(&other), Some(&other), 20, own, 5000, Claim::Take),
            (Some(&other), Some(&renewed), 10, own, 5000, Claim::Refuse),
        ] {
            let decided = claim(first, now, Duration::from_secs(unchanged), own, at(clock));
            assert_eq!(decided, expected, "{now:?} {unchanged} {own:?} {clock}");
        }
    }
}
