//! Lifecycle hooks and probes (`validateHandler`, `validateLifecycle`, `validateProbe`).

use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::report::Report;
use crate::Pod;
use crate::name_forms::is_port_name;
use crate::probe::exec_command;
use crate::{Expander, TooLong, resolve_port, signal};

pub(super) fn lifecycle(container: &Container, place: &str, pod: &Pod, report: &mut Report) {
    let Some(lifecycle) = &container.lifecycle else { return };
    let place = format!("{place}.lifecycle");
    for (field, hook) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        if let Some(hook) = hook {
            self::hook(hook, container, &format!("{place}.{field}"), pod, report);
        }
    }
    let Some(name) = lifecycle.stop_signal.as_deref() else { return };
    let field = format!("{place}.stopSignal");
    if signal(name).is_none() {
        report.add(field, name, "must be a signal such as SIGTERM, SIGUSR1 or SIGRTMIN+3");
    } else if pod.spec().os.is_none() {
        report.add(field, name, "needs spec.os.name: linux");
    }
}

fn hook(hook: &LifecycleHandler, container: &Container, place: &str, pod: &Pod, report: &mut Report) {
    let kinds =
        [hook.exec.is_some(), hook.http_get.is_some(), hook.sleep.is_some(), hook.tcp_socket.is_some()];
    one_of(&kinds, "exec, httpGet, sleep", place, report);
    if let Some(exec) = &hook.exec {
        self::exec(exec, place, report);
    }
    if let Some(get) = &hook.http_get {
        http_get(get, container, &format!("{place}.httpGet"), report);
    }
    if let Some(sleep) = &hook.sleep {
        let grace = i64::try_from(crate::grace(pod).as_secs()).unwrap_or(i64::MAX);
        report.number(format!("{place}.sleep.seconds"), Some(sleep.seconds), 0, grace);
    }
    if hook.tcp_socket.is_some() {
        let expected = "must not be set: no kubelet runs it, nor does this agent";
        report.add(format!("{place}.tcpSocket"), "", expected);
    }
}

/// `commands` bounds the commands of all probes of the pod.
pub(super) fn probes(container: &Container, place: &str, commands: &mut Expander, report: &mut Report) {
    for (field, probe) in [
        ("livenessProbe", &container.liveness_probe),
        ("readinessProbe", &container.readiness_probe),
        ("startupProbe", &container.startup_probe),
    ] {
        let Some(probe) = probe else { continue };
        let place = format!("{place}.{field}");
        self::probe(probe, container, &place, report);
        if let Some(exec) = &probe.exec
            && let Err(TooLong { limit }) = exec_command(exec, container, commands)
        {
            let expected = format!(
                "must have at most {limit} bytes after expansion, together with those of the pod's other probes"
            );
            report.add(format!("{place}.exec.command"), "", expected);
        }
        let readiness = field == "readinessProbe";
        if let Some(threshold) = probe.success_threshold.filter(|threshold| !readiness && *threshold > 1) {
            report.add(format!("{place}.successThreshold"), threshold.to_string(), "must be 1");
        }
        if let Some(seconds) = probe.termination_grace_period_seconds {
            let field = format!("{place}.terminationGracePeriodSeconds");
            if readiness {
                report.add(field, seconds.to_string(), "must not be set for a readiness probe");
            } else {
                report.number(field, Some(seconds), 1, i64::MAX);
            }
        }
    }
}

fn probe(probe: &Probe, container: &Container, place: &str, report: &mut Report) {
    let kinds =
        [probe.exec.is_some(), probe.http_get.is_some(), probe.tcp_socket.is_some(), probe.grpc.is_some()];
    one_of(&kinds, "exec, httpGet, tcpSocket, grpc", place, report);
    if let Some(exec) = &probe.exec {
        self::exec(exec, place, report);
    }
    if let Some(get) = &probe.http_get {
        http_get(get, container, &format!("{place}.httpGet"), report);
    }
    if let Some(socket) = &probe.tcp_socket {
        port(&socket.port, container, &format!("{place}.tcpSocket.port"), report);
    }
    if let Some(grpc) = &probe.grpc {
        report.number(format!("{place}.grpc.port"), Some(grpc.port.into()), 1, 65_535);
    }
    for (field, value) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        report.number(format!("{place}.{field}"), value.map(i64::from), 0, i32::MAX.into());
    }
}

fn one_of(kinds: &[bool], names: &str, place: &str, report: &mut Report) {
    match kinds.iter().filter(|set| **set).count() {
        0 => report.add(place, "", format!("must have one of {names}")),
        1 => {}
        _ => report.add(place, "", format!("must have only one of {names}")),
    }
}

fn exec(exec: &ExecAction, place: &str, report: &mut Report) {
    if exec.command.as_ref().is_none_or(Vec::is_empty) {
        report.required(format!("{place}.exec.command"));
    }
}

fn http_get(get: &HTTPGetAction, container: &Container, place: &str, report: &mut Report) {
    report.word(format!("{place}.scheme"), get.scheme.as_deref(), &["", "HTTP", "HTTPS"]);
    port(&get.port, container, &format!("{place}.port"), report);
    for (index, header) in get.http_headers.iter().flatten().enumerate() {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if header.name.is_empty() || !header.name.bytes().all(good) {
            let field = format!("{place}.httpHeaders[{index}].name");
            report.add(field, &header.name, "must be letters, digits and '-'");
        }
        if header.value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
            let field = format!("{place}.httpHeaders[{index}].value");
            report.add(field, &header.value, "must have no control characters");
        }
    }
}

fn port(asked: &IntOrString, container: &Container, field: &str, report: &mut Report) {
    match asked {
        IntOrString::Int(number) => report.number(field, Some((*number).into()), 1, 65_535),
        IntOrString::String(name) if !is_port_name(name) => {
            let expected =
                "must be a number of 1 to 65535 without quotes, or the name of one of the container's ports";
            report.add(field, name, expected);
        }
        IntOrString::String(name) if resolve_port(asked, container).is_none() => {
            report.add(field, name, "must be the name of one of the container's ports");
        }
        IntOrString::String(_) => {}
    }
}
