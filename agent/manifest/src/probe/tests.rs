use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use super::{HandlerKind, HttpGetProbe, ProbeHandler, ProbeKind, ProbeSpec};
use crate::Scheme;

/// A container with these fields (YAML, flow style), without validation.
fn container(fields: &str) -> Container {
    let ports = "ports: [{name: web, containerPort: 8080}, {name: '81', containerPort: 9}]";
    let value: serde_json::Value =
        serde_yaml_ng::from_str(&format!("{{name: c, {ports}, {fields}}}")).expect("YAML");
    serde_json::from_value(value).expect("a container")
}

/// The only probe of a container with these fields.
#[track_caller]
fn only(fields: &str) -> ProbeSpec {
    let mut specs = ProbeSpec::of(&container(fields));
    assert_eq!(specs.len(), 1, "{specs:?}");
    specs.remove(0)
}

#[track_caller]
fn handler(fields: &str) -> ProbeHandler {
    only(&format!("readinessProbe: {{{fields}}}")).handler
}

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// For every number: the default, the minimum, a value below it and one above it.
#[test]
fn numbers_have_the_api_servers_defaults_and_minimums() {
    type Change = fn(&mut ProbeSpec);
    let cases: &[(&str, Change)] = &[
        ("", |_| {}),
        ("initialDelaySeconds: 0", |_| {}),
        ("initialDelaySeconds: -1", |_| {}),
        ("initialDelaySeconds: 7", |spec| spec.initial_delay = secs(7)),
        ("initialDelaySeconds: 2147483647", |spec| spec.initial_delay = secs(2_147_483_647)),
        ("timeoutSeconds: 0", |_| {}),
        ("timeoutSeconds: -5", |_| {}),
        ("timeoutSeconds: 5", |spec| spec.timeout = secs(5)),
        ("periodSeconds: 0", |_| {}),
        ("periodSeconds: -5", |_| {}),
        ("periodSeconds: 1", |spec| spec.period = secs(1)),
        ("periodSeconds: 60", |spec| spec.period = secs(60)),
        ("successThreshold: 0", |_| {}),
        ("successThreshold: -1", |_| {}),
        ("successThreshold: 4", |spec| spec.success_threshold = 4),
        ("failureThreshold: 0", |_| {}),
        ("failureThreshold: -1", |_| {}),
        ("failureThreshold: 1", |spec| spec.failure_threshold = 1),
        ("failureThreshold: 30", |spec| spec.failure_threshold = 30),
        ("terminationGracePeriodSeconds: 0", |_| {}),
        ("terminationGracePeriodSeconds: -1", |_| {}),
        ("terminationGracePeriodSeconds: 1", |spec| spec.grace = Some(secs(1))),
        ("terminationGracePeriodSeconds: 9999999999", |spec| spec.grace = Some(secs(9_999_999_999))),
    ];
    for (fields, change) in cases {
        let mut expected = ProbeSpec {
            kind: ProbeKind::Liveness,
            handler: ProbeHandler::TcpSocket { host: None, port: 1 },
            initial_delay: secs(0),
            timeout: secs(1),
            period: secs(10),
            success_threshold: 1,
            failure_threshold: 3,
            grace: None,
        };
        change(&mut expected);
        assert_eq!(
            only(&format!("livenessProbe: {{tcpSocket: {{port: 1}}, {fields}}}")),
            expected,
            "{fields}"
        );
    }
}

#[test]
fn probes_are_in_the_order_of_kinds() {
    let all = "livenessProbe: {tcpSocket: {port: 3}}, readinessProbe: {tcpSocket: {port: 2}}, startupProbe: {tcpSocket: {port: 1}}";
    let specs = ProbeSpec::of(&container(all));
    assert_eq!(specs.iter().map(|spec| spec.kind).collect::<Vec<_>>(), ProbeKind::ALL);
    for (spec, port) in specs.iter().zip(1..) {
        assert_eq!(spec.handler, ProbeHandler::TcpSocket { host: None, port });
    }
    assert_eq!(ProbeSpec::of(&container("image: i")), []);
    // Without a handler or a known port there is no probe.
    assert_eq!(ProbeSpec::of(&container("livenessProbe: {periodSeconds: 1}")), []);
    for port in ["unknown", "0", "-1", "65536"] {
        for handler in ["httpGet", "tcpSocket"] {
            assert_eq!(
                ProbeSpec::of(&container(&format!("livenessProbe: {{{handler}: {{port: {port}}}}}"))),
                []
            );
        }
    }
    assert_eq!(ProbeSpec::of(&container("startupProbe: {grpc: {port: 65536}}")), []);
}

#[test]
fn commands_are_expanded() {
    let exec = |command: &[&str]| ProbeHandler::Exec(command.iter().map(ToString::to_string).collect());
    assert_eq!(handler("exec: {command: [cat, /tmp/x]}"), exec(&["cat", "/tmp/x"]));
    assert_eq!(handler("exec: {}"), exec(&[]));
    // Literal values of the manifest are inserted unchanged.
    let env = r#"env: [{name: A, value: no}, {name: A, value: "1"}, {name: B, value: $(A)}, {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"#;
    let spec =
        only(&format!("{env}, livenessProbe: {{exec: {{command: [$(A), $(B)x, '-$(C)-', $(D), $$(A)]}}}}"));
    assert_eq!(spec.handler, exec(&["1", "$(A)x", "--", "$(D)", "$(A)"]));
    assert_eq!(spec.handler.kind(), HandlerKind::Exec);
}

#[test]
fn http_requests_are_read() {
    let default =
        HttpGetProbe { scheme: Scheme::Http, host: None, port: 80, path: String::new(), headers: Vec::new() };
    let cases = [
        ("port: 80", default.clone()),
        ("port: 80, host: '', path: '', scheme: '', httpHeaders: []", default.clone()),
        ("port: web", HttpGetProbe { port: 8080, ..default.clone() }),
        // A port's name takes precedence over digits in quotes.
        ("port: '80'", default.clone()),
        ("port: '81'", HttpGetProbe { port: 9, ..default.clone() }),
        ("port: 80, scheme: HTTP", default.clone()),
        ("port: 80, scheme: HTTPS", HttpGetProbe { scheme: Scheme::Https, ..default.clone() }),
        ("port: 80, host: h", HttpGetProbe { host: Some("h".into()), ..default.clone() }),
        ("port: 80, path: '/a?b=c'", HttpGetProbe { path: "/a?b=c".into(), ..default.clone() }),
        ("port: 80, path: a", HttpGetProbe { path: "a".into(), ..default.clone() }),
        (
            "port: 80, httpHeaders: [{name: A, value: b}, {name: A, value: ''}]",
            HttpGetProbe { headers: vec![("A".into(), "b".into()), ("A".into(), String::new())], ..default },
        ),
    ];
    for (fields, expected) in cases {
        let handler = handler(&format!("httpGet: {{{fields}}}"));
        assert_eq!(handler.kind(), HandlerKind::HttpGet);
        assert_eq!(handler, ProbeHandler::HttpGet(expected), "{fields}");
    }
}

#[test]
fn sockets_and_grpc_services_are_read() {
    let tcp = |host: Option<&str>, port| ProbeHandler::TcpSocket { host: host.map(Into::into), port };
    let grpc = |port, service: &str| ProbeHandler::Grpc { port, service: service.into() };
    for (fields, expected) in [
        ("tcpSocket: {port: 1}", tcp(None, 1)),
        ("tcpSocket: {port: 65535, host: ''}", tcp(None, 65_535)),
        ("tcpSocket: {port: web, host: '::1'}", tcp(Some("::1"), 8080)),
        ("grpc: {port: 5000}", grpc(5000, "")),
        ("grpc: {port: 5000, service: ''}", grpc(5000, "")),
        ("grpc: {port: 1, service: a.B}", grpc(1, "a.B")),
    ] {
        assert_eq!(handler(fields), expected, "{fields}");
    }
}

#[test]
fn descriptions_are_those_of_kubectl() {
    let numbers = "initialDelaySeconds: 5, timeoutSeconds: 2, periodSeconds: 3, failureThreshold: 4";
    for (fields, expected) in [
        ("exec: {command: [cat, /tmp/x]}", "exec [cat /tmp/x]"),
        ("httpGet: {port: web, path: /x}", "http-get http://:8080/x"),
        ("httpGet: {port: 1, path: 'x?y', host: h, scheme: HTTPS}", "http-get https://h:1/x?y"),
        ("httpGet: {port: 1, host: '::1'}", "http-get http://[::1]:1/"),
        ("tcpSocket: {port: 1}", "tcp-socket :1"),
        ("tcpSocket: {port: 1, host: h}", "tcp-socket h:1"),
        ("grpc: {port: 1}", "grpc <pod>:1"),
        ("grpc: {port: 1, service: s}", "grpc <pod>:1 s"),
    ] {
        let spec = only(&format!("startupProbe: {{{fields}}}"));
        let default = "delay=0s timeout=1s period=10s #success=1 #failure=3";
        assert_eq!(spec.describe(), format!("{expected} {default}"));
        let spec = only(&format!("startupProbe: {{{fields}, {numbers}}}"));
        let own = "delay=5s timeout=2s period=3s #success=1 #failure=4";
        assert_eq!(spec.describe(), format!("{expected} {own}"));
    }
}
