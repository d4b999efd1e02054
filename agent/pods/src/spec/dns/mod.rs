//! The resolver configuration of a pod (kubelet pkg/kubelet/network/dns/dns.go).

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod limits;
mod resolv;
#[cfg(test)]
mod tests;

use nodewarden_proto::runtime::v1 as cri;

use super::{Host, SpecError};
use nodewarden_manifest::Pod;

pub use resolv::{Resolv, ResolvError};

/// The resolver option of pods that use the cluster's servers.
const CLUSTER_OPTION: &str = "ndots:5";

/// Which servers a pod uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Only those of `dnsConfig`.
    None,
    Cluster,
    Host,
}

fn policy(pod: &Pod) -> Result<Policy, SpecError> {
    let spec = pod.spec();
    let host_network = pod.host_network;
    match spec.dns_policy.as_deref() {
        Some("None") => Ok(Policy::None),
        Some("Default") => Ok(Policy::Host),
        Some("ClusterFirstWithHostNet") => Ok(Policy::Cluster),
        None | Some("" | "ClusterFirst") if host_network => Ok(Policy::Host),
        None | Some("" | "ClusterFirst") => Ok(Policy::Cluster),
        Some(other) => Err(SpecError::DnsPolicy { policy: other.to_owned() }),
    }
}

/// The contents of the pod's `resolv.conf`, and events (reason and message) about what was left out or
/// differs from the manifest.
pub(super) fn config(pod: &Pod, host: &Host) -> Result<(cri::DnsConfig, Vec<(String, String)>), SpecError> {
    let spec = pod.spec();
    let mut warnings = Vec::new();
    let cluster = &host.pods.cluster_dns;
    let mut resolv = match policy(pod)? {
        Policy::None => Resolv::default(),
        Policy::Cluster if !cluster.is_empty() => Resolv {
            nameservers: cluster.iter().map(ToString::to_string).collect(),
            searches: cluster_searches(pod, host),
            options: vec![CLUSTER_OPTION.to_owned()],
        },
        policy => {
            if policy == Policy::Cluster {
                let asked = spec.dns_policy.as_deref().unwrap_or("ClusterFirst");
                let message = format!(
                    "no clusterDNS is configured and no pod can have the {asked:?} policy: falling back to \"Default\""
                );
                warnings.push(("MissingClusterDNS".to_owned(), message));
            }
            host_resolv(host)
        }
    };
    if let Some(own) = &spec.dns_config {
        let texts = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
        resolv.nameservers = distinct(resolv.nameservers.into_iter().chain(texts(&own.nameservers)));
        resolv.searches = distinct(resolv.searches.into_iter().chain(texts(&own.searches)));
        let options = own.options.iter().flatten().map(|option| {
            let name = option.name.clone().unwrap_or_default();
            match option.value.as_deref().filter(|value| !value.is_empty()) {
                Some(value) => format!("{name}:{value}"),
                None => name,
            }
        });
        resolv.options = resolv::merged(resolv.options.into_iter().chain(options));
    }
    warnings.extend(limits::apply(&mut resolv));
    let config =
        cri::DnsConfig { servers: resolv.nameservers, searches: resolv.searches, options: resolv.options };
    Ok((config, warnings))
}

/// The node's resolver configuration; if pods must not get it, one that disables name resolution, because
/// with an empty configuration the runtime would use the node's.
fn host_resolv(host: &Host) -> Resolv {
    if host.pods.resolv_conf.is_some() {
        return host.resolv.clone();
    }
    let local = if host.host_ips.first().is_some_and(|ip| ip.is_ipv6()) { "::1" } else { "127.0.0.1" };
    Resolv { nameservers: vec![local.to_owned()], searches: vec![".".to_owned()], options: Vec::new() }
}

fn cluster_searches(pod: &Pod, host: &Host) -> Vec<String> {
    let domain = &host.pods.cluster_domain;
    if domain.is_empty() {
        return host.resolv.searches.clone();
    }
    let own = [format!("{}.svc.{domain}", pod.namespace), format!("svc.{domain}"), domain.clone()];
    distinct(own.into_iter().chain(host.resolv.searches.iter().cloned()))
}

/// Removes duplicates, keeping the first of each.
fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = Vec::new();
    for text in texts {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all
}
