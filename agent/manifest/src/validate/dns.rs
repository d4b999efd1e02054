//! `dnsPolicy` and `dnsConfig` (`validatePodDNSConfig`).

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{PodDNSConfig, PodSpec};

use super::report::Report;
use crate::dns_limits::{LONGEST_SEARCHES, MOST_NAMESERVERS, MOST_SEARCHES};
use crate::name_forms::is_dns_subdomain;

const POLICIES: [&str; 4] = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];

pub(super) fn problems(spec: &PodSpec, report: &mut Report) {
    report.word("spec.dnsPolicy", spec.dns_policy.as_deref(), &POLICIES);
    let servers = spec.dns_config.as_ref().and_then(|config| config.nameservers.as_deref());
    if spec.dns_policy.as_deref() == Some("None") && servers.unwrap_or_default().is_empty() {
        let expected = "is required: with dnsPolicy None there is no other nameserver";
        report.add("spec.dnsConfig.nameservers", "", expected);
    }
    if let Some(config) = &spec.dns_config {
        self::config(config, report);
    }
}

fn config(config: &PodDNSConfig, report: &mut Report) {
    let servers = config.nameservers.as_deref().unwrap_or_default();
    if servers.len() > MOST_NAMESERVERS {
        let expected = format!("must be at most {MOST_NAMESERVERS}");
        report.add("spec.dnsConfig.nameservers", servers.len().to_string(), expected);
    }
    for (index, server) in servers.iter().enumerate() {
        if server.parse::<IpAddr>().is_err() {
            report.add(format!("spec.dnsConfig.nameservers[{index}]"), server, "must be an IP address");
        }
    }
    let searches = config.searches.as_deref().unwrap_or_default();
    if searches.len() > MOST_SEARCHES {
        let expected = format!("must be at most {MOST_SEARCHES}");
        report.add("spec.dnsConfig.searches", searches.len().to_string(), expected);
    }
    let length = searches.join(" ").len();
    if length > LONGEST_SEARCHES {
        let expected = format!("must be at most {LONGEST_SEARCHES} characters together");
        report.add("spec.dnsConfig.searches", length.to_string(), expected);
    }
    for (index, search) in searches.iter().enumerate() {
        // A dot at the end, the root alone and underscores are allowed.
        let bare = search.strip_suffix('.').unwrap_or(search).replace('_', "a");
        if search != "." && !is_dns_subdomain(&bare) {
            let expected = "must be a DNS subdomain of at most 253 characters";
            report.add(format!("spec.dnsConfig.searches[{index}]"), search, expected);
        }
    }
    for (index, option) in config.options.iter().flatten().enumerate() {
        if option.name.as_deref().unwrap_or_default().is_empty() {
            report.required(format!("spec.dnsConfig.options[{index}].name"));
        }
    }
}
