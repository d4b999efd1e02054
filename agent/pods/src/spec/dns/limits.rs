//! Limits of a resolver configuration (kubelet `formDNSConfigFitsLimits`; pkg/apis/core/validation).

use super::Resolv;
use nodewarden_manifest::dns_limits::{LONGEST_DOMAIN, LONGEST_SEARCHES, MOST_NAMESERVERS, MOST_SEARCHES};

/// Removes what exceeds the limits and returns messages about it, as in the kubelet's event
/// `DNSConfigForming`.
pub(super) fn apply(resolv: &mut Resolv) -> Vec<(String, String)> {
    let mut warnings = Vec::new();
    let mut warn = |message: String| warnings.push(("DNSConfigForming".to_owned(), message));
    if resolv.nameservers.len() > MOST_NAMESERVERS {
        resolv.nameservers.truncate(MOST_NAMESERVERS);
        warn(format!(
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
            resolv.nameservers.join(" ")
        ));
    }
    let asked = resolv.searches.len();
    resolv.searches.retain(|domain| domain.len() <= LONGEST_DOMAIN);
    resolv.searches.truncate(MOST_SEARCHES);
    while resolv.searches.join(" ").len() > LONGEST_SEARCHES {
        resolv.searches.pop();
    }
    if resolv.searches.len() < asked {
        warn(format!(
            "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
            resolv.searches.join(" ")
        ));
    }
    warnings
}
