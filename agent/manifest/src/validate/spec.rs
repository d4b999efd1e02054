//! The fields of a pod's spec that concern the pod as a whole (`ValidatePodSpec`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{HostAlias, PodSpec};

use super::report::Report;
use crate::name_forms::{is_dns_label, is_dns_subdomain};

const LABEL: &str = "must be a DNS label: lower-case letters, digits and '-', at most 63";
const SUBDOMAIN: &str = "must be a DNS subdomain: lower-case letters, digits, '-' and '.', at most 253";

pub(super) fn problems(spec: &PodSpec, report: &mut Report) {
    let set = |field: Option<bool>| field.unwrap_or(false);
    report.word("spec.restartPolicy", spec.restart_policy.as_deref(), &["Always", "OnFailure", "Never"]);
    let policies = ["Never", "PreemptLowerPriority"];
    report.word("spec.preemptionPolicy", spec.preemption_policy.as_deref(), &policies);
    if set(spec.host_pid) && set(spec.share_process_namespace) {
        let expected = "must not be true together with spec.hostPID";
        report.add("spec.shareProcessNamespace", "true", expected);
    }
    names(spec, report);
    for (index, alias) in spec.host_aliases.iter().flatten().enumerate() {
        host_alias(alias, &format!("spec.hostAliases[{index}]"), report);
    }
}

fn names(spec: &PodSpec, report: &mut Report) {
    for (field, name) in [("spec.hostname", &spec.hostname), ("spec.subdomain", &spec.subdomain)] {
        if let Some(name) = name.as_deref().filter(|name| !name.is_empty() && !is_dns_label(name)) {
            report.add(field, name, LABEL);
        }
    }
    let Some(name) = spec.hostname_override.as_deref() else { return };
    let field = "spec.hostnameOverride";
    if !is_dns_subdomain(name) || name.len() > 64 {
        report.add(field, name, "must be a DNS subdomain of at most 64 characters");
    }
    if spec.host_network.unwrap_or(false) {
        report.add(field, name, "must not be set together with spec.hostNetwork");
    }
    if spec.set_hostname_as_fqdn.unwrap_or(false) {
        report.add(field, name, "must not be set together with spec.setHostnameAsFQDN");
    }
}

fn host_alias(alias: &HostAlias, place: &str, report: &mut Report) {
    if alias.ip.parse::<IpAddr>().is_err() {
        report.add(format!("{place}.ip"), &alias.ip, "must be an IP address");
    }
    for (index, name) in alias.hostnames.iter().flatten().enumerate() {
        if !is_dns_subdomain(name) {
            report.add(format!("{place}.hostnames[{index}]"), name, SUBDOMAIN);
        }
    }
}

/// `hostPort` of all containers: on the node's network it is the `containerPort`, and each is used only once
/// (`validateHostNetwork`, `checkHostPortConflicts`).
pub(super) fn host_ports(spec: &PodSpec, report: &mut Report) {
    let mut taken = BTreeSet::new();
    let init = spec.init_containers.as_deref().unwrap_or_default();
    for (position, (container, place)) in super::placed(init, &spec.containers).enumerate() {
        // Init containers that are not sidecars run one after the other and not together with other
        // containers.
        let concurrent = position >= init.len() || container.restart_policy.as_deref() == Some("Always");
        for (index, port) in container.ports.iter().flatten().enumerate() {
            let field = format!("{place}.ports[{index}].hostPort");
            let asked = port.host_port.unwrap_or(0);
            let on_node = spec.host_network.unwrap_or(false);
            if on_node && asked != 0 && asked != port.container_port {
                let expected =
                    format!("must be the containerPort, {}, with spec.hostNetwork", port.container_port);
                report.add(&field, asked.to_string(), expected);
            }
            let key = (
                port.protocol.as_deref().unwrap_or("TCP").to_owned(),
                port.host_ip.as_deref().unwrap_or_default().to_owned(),
                asked,
            );
            if asked != 0 && concurrent && !taken.insert(key) {
                report.add(field, asked.to_string(), "must be asked for only once in a pod");
            }
        }
    }
}
