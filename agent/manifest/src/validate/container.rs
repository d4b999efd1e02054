//! One container's own fields (`validateContainers`, `validateInitContainers`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ContainerPort};

use super::report::Report;
use crate::ContainerKind;
use crate::name_forms::is_port_name;
use crate::names::{CPU, MEMORY};

pub(super) fn problems(container: &Container, place: &str, restart_policy: &str, report: &mut Report) {
    image(container, place, report);
    let policies = ["Always", "IfNotPresent", "Never"];
    report.word(format!("{place}.imagePullPolicy"), container.image_pull_policy.as_deref(), &policies);
    let policies = ["File", "FallbackToLogsOnError"];
    let policy = container.termination_message_policy.as_deref();
    report.word(format!("{place}.terminationMessagePolicy"), policy, &policies);
    ports(container, place, report);
    resize_policy(container, place, restart_policy, report);
}

fn image(container: &Container, place: &str, report: &mut Report) {
    let field = format!("{place}.image");
    match container.image.as_deref().unwrap_or_default() {
        "" => report.required(field),
        image if image.trim() != image => report.add(field, image, "must not begin or end with white space"),
        _ => {}
    }
}

fn ports(container: &Container, place: &str, report: &mut Report) {
    let mut names = BTreeSet::new();
    for (index, port) in container.ports.iter().flatten().enumerate() {
        let place = format!("{place}.ports[{index}]");
        self::port(port, &place, report);
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty() && !names.insert(*name)) {
            report.add(format!("{place}.name"), name, "must be unique among the ports of the container");
        }
    }
}

fn port(port: &ContainerPort, place: &str, report: &mut Report) {
    if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty() && !is_port_name(name)) {
        let expected =
            "must be 1 to 15 lower-case letters, digits and '-', with a letter, no '--', no '-' at an end";
        report.add(format!("{place}.name"), name, expected);
    }
    report.number(format!("{place}.containerPort"), Some(port.container_port.into()), 1, 65_535);
    let host_port = port.host_port.filter(|port| *port != 0).map(i64::from);
    report.number(format!("{place}.hostPort"), host_port, 1, 65_535);
    if let Some(ip) = port.host_ip.as_deref().filter(|ip| !ip.is_empty() && ip.parse::<IpAddr>().is_err()) {
        report.add(format!("{place}.hostIP"), ip, "must be an IP address");
    }
    report.word(format!("{place}.protocol"), port.protocol.as_deref(), &["TCP", "UDP", "SCTP"]);
}

/// What a resize does to the container (KEP-1287).
fn resize_policy(container: &Container, place: &str, restart_policy: &str, report: &mut Report) {
    let mut names = BTreeSet::new();
    for (index, policy) in container.resize_policy.iter().flatten().enumerate() {
        let place = format!("{place}.resizePolicy[{index}]");
        let name = policy.resource_name.as_str();
        report.word(format!("{place}.resourceName"), Some(name), &[CPU, MEMORY]);
        if !names.insert(name) {
            report.add(format!("{place}.resourceName"), name, "must be named once");
        }
        let policy = policy.restart_policy.as_str();
        let field = format!("{place}.restartPolicy");
        report.word(&field, Some(policy), &["NotRequired", "RestartContainer"]);
        if policy == "RestartContainer" && restart_policy == "Never" {
            report.add(field, policy, "must be NotRequired where restartPolicy is Never");
        }
    }
}

/// Fields that an init container that is no sidecar cannot have.
pub(super) fn of_kind(container: &Container, kind: ContainerKind, place: &str, report: &mut Report) {
    if kind != ContainerKind::Init {
        return;
    }
    let fields = [
        ("lifecycle", container.lifecycle.is_some()),
        ("livenessProbe", container.liveness_probe.is_some()),
        ("readinessProbe", container.readiness_probe.is_some()),
        ("startupProbe", container.startup_probe.is_some()),
        ("resizePolicy", container.resize_policy.as_ref().is_some_and(|all| !all.is_empty())),
    ];
    for (field, _) in fields.into_iter().filter(|(_, set)| *set) {
        let expected = "must not be set for an init container without restartPolicy Always";
        report.add(format!("{place}.{field}"), "", expected);
    }
}
