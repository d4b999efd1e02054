//! Probes: each case has the expected problems, none for a valid probe (`validateProbe`, `validateHandler` of
//! the API server).

use serde_json::Value;

use super::{check, pod};

const HEADER: &str = "httpHeaders[0].name";

/// A container `c` with a port `web` and these fields, in this list of the spec.
fn container(list: &str, fields: &str) -> Value {
    let own = format!("{{name: c, ports: [{{name: web, containerPort: 80}}], {fields}}}");
    let other = if list == "containers" { "" } else { ", containers: [{name: other}]" };
    let text = format!("{{{list}: [{own}]{other}}}");
    pod(serde_yaml_ng::from_str(&text).expect("YAML"))
}

/// Compares the problems of a probe with these fields, without the path of the container.
#[track_caller]
fn check_probe(kind: &str, fields: &str, expected: &[&str]) {
    for (list, more) in [("containers", ""), ("initContainers", ", restartPolicy: Always")] {
        let expected: Vec<_> = expected.iter().map(|text| format!("spec.{list}[0].{kind}{text}")).collect();
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        check(container(list, &format!("{kind}: {{{fields}}}{more}")), &expected);
    }
}

#[test]
fn handlers_are_validated() {
    let none = ": must have one of exec, httpGet, tcpSocket, grpc";
    let several = ": must have only one of exec, httpGet, tcpSocket, grpc";
    for (fields, expected) in [
        ("exec: {command: [a]}", &[][..]),
        ("httpGet: {port: 1}", &[]),
        ("tcpSocket: {port: 65535, host: h}", &[]),
        ("grpc: {port: 1}", &[]),
        // A service may have any name.
        ("grpc: {port: 65535, service: 'ä b'}", &[]),
        ("grpc: {port: 1, service: ''}", &[]),
        ("", &[none]),
        ("periodSeconds: 1", &[none]),
        ("exec: {command: [a]}, grpc: {port: 1}", &[several]),
        ("httpGet: {port: 1}, tcpSocket: {port: 1}", &[several]),
        (
            "exec: {}, httpGet: {port: 0}, tcpSocket: {port: 0}, grpc: {port: 0}",
            &[
                several,
                ".exec.command: is required",
                ".httpGet.port: \"0\" must be 1 to 65535",
                ".tcpSocket.port: \"0\" must be 1 to 65535",
                ".grpc.port: \"0\" must be 1 to 65535",
            ],
        ),
        ("exec: {command: []}", &[".exec.command: is required"]),
        ("grpc: {port: -1}", &[".grpc.port: \"-1\" must be 1 to 65535"]),
        ("grpc: {port: 65536}", &[".grpc.port: \"65536\" must be 1 to 65535"]),
    ] {
        for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
            check_probe(kind, fields, expected);
        }
    }
}

#[test]
fn ports_are_validated() {
    for (port, expected) in [
        ("80", None),
        ("web", None),
        ("0", Some("\"0\" must be 1 to 65535")),
        ("-80", Some("\"-80\" must be 1 to 65535")),
        ("65536", Some("\"65536\" must be 1 to 65535")),
        ("unknown", Some("\"unknown\" must be the name of one of the container's ports")),
        ("'80'", Some("\"80\" must be a number of 1 to 65535 without quotes, or the name of")),
        ("''", Some("must be a number of 1 to 65535 without quotes, or the name of")),
        ("Web", Some("\"Web\" must be a number of 1 to 65535 without quotes, or the name of")),
    ] {
        for handler in ["httpGet", "tcpSocket"] {
            let expected = expected.map(|text| format!(".{handler}.port: {text}"));
            let expected: Vec<_> = expected.iter().map(String::as_str).collect();
            check_probe("readinessProbe", &format!("{handler}: {{port: {port}}}"), &expected);
        }
    }
}

#[test]
fn http_requests_are_validated() {
    for scheme in ["HTTP", "HTTPS", "''"] {
        check_probe("livenessProbe", &format!("httpGet: {{port: 1, scheme: {scheme}}}"), &[]);
    }
    for scheme in ["http", "https", "FTP"] {
        let expected = format!(".httpGet.scheme: \"{scheme}\" must be one of HTTP, HTTPS");
        check_probe("livenessProbe", &format!("httpGet: {{port: 1, scheme: {scheme}}}"), &[&expected]);
    }
    for name in ["Host", "X-A", "-", "1"] {
        check_probe(
            "livenessProbe",
            &format!("httpGet: {{port: 1, httpHeaders: [{{name: '{name}', value: ''}}]}}"),
            &[],
        );
    }
    for name in ["", "a b", "a:", "a_b", "ä", "a.b"] {
        let quoted = if name.is_empty() { String::new() } else { format!("\"{name}\" ") };
        let expected = format!(".httpGet.{HEADER}: {quoted}must be letters, digits and '-'");
        check_probe(
            "livenessProbe",
            &format!("httpGet: {{port: 1, httpHeaders: [{{name: '{name}', value: x}}]}}"),
            &[&expected],
        );
    }
    let value = "httpGet: {port: 1, httpHeaders: [{name: a, value: \"x\\r\\nB: c\"}]}";
    check_probe("livenessProbe", value, &[".httpGet.httpHeaders[0].value: "]);
}

#[test]
fn numbers_are_validated() {
    const OF_ALL: [&str; 5] =
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        for field in OF_ALL {
            let with = |number| format!("exec: {{command: [a]}}, {field}: {number}");
            // 0 is the default.
            check_probe(kind, &with(0), &[]);
            check_probe(kind, &with(1), &[]);
            check_probe(kind, &with(-1), &[&format!(".{field}: \"-1\" must be 0 to 2147483647")]);
            let expected = format!(".{field}: \"2\" must be 1");
            let once = field == "successThreshold" && kind != "readinessProbe";
            check_probe(kind, &with(2), &[expected.as_str()][usize::from(!once)..]);
        }
    }
}

#[test]
fn grace_periods_are_validated() {
    const FIELD: &str = "terminationGracePeriodSeconds";
    let with = |seconds| format!("exec: {{command: [a]}}, {FIELD}: {seconds}");
    for kind in ["livenessProbe", "startupProbe"] {
        check_probe(kind, &with(1), &[]);
        check_probe(kind, &with(9_999_999_999_i64), &[]);
        for seconds in [0, -1] {
            check_probe(kind, &with(seconds), &[&format!(".{FIELD}: \"{seconds}\" must be 1 to ")]);
        }
    }
    let expected = format!(".{FIELD}: \"5\" must not be set for a readiness probe");
    check_probe("readinessProbe", &with(5), &[&expected]);
}

/// A container that runs to its end before others start is not probed.
#[test]
fn init_containers_have_no_probes() {
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let expected = format!("spec.initContainers[0].{kind}: must not be set for an init container");
        check(container("initContainers", &format!("{kind}: {{exec: {{command: [a]}}}}")), &[&expected]);
    }
}

/// Each variable is twice the one before: the last would have a megabyte and more.
#[test]
fn commands_that_expand_to_too_much_are_refused() {
    let doubling: Vec<String> =
        (1..=20).map(|n| format!("{{name: V{n}, value: '$(V{0})$(V{0})'}}", n - 1)).collect();
    let env = format!("env: [{{name: V0, value: {}}}, {}]", "x".repeat(1 << 10), doubling.join(", "));
    // A probe's command is expanded once only.
    check(container("containers", &format!("{env}, livenessProbe: {{exec: {{command: [a, $(V20)]}}}}")), &[]);
    let words = vec!["$(V0)"; 1025].join(", ");
    let probe = format!("{env}, livenessProbe: {{exec: {{command: [{words}]}}}}");
    let expected = "spec.containers[0].livenessProbe.exec.command: must have at most 1048576 bytes after expansion, \
                    together with those of the pod's other probes";
    check(container("containers", &probe), &[expected]);
}
