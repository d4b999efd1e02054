//! Every handler of probes against real servers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::fixture::{ProbeEvent, ProbeFixture};
use super::manifest::{Ports, exec, grpc, probe};
use super::{LONG_NEEDS, shown};
use crate::e2e::pods::manifest::{STAY, merged, shell};
use crate::e2e::support::eventually;
use crate::ensure_eq;
use crate::fixture::count_time_wait;
use crate::harness::{Context, Failure, REPORTED, Test};

pub const TESTS: &[Test] = &[Test::new("probe_handlers", handlers).timeout(300).needs(LONG_NEEDS)];

/// The server's container in every pod.
const SERVER: &str = "server";
/// The pod with a network of its own, if there is one.
const OWN: &str = "own";
/// The pod whose containers are probed by commands.
const COMMANDS: &str = "commands";
/// The pod that is probed over IPv6.
const IPV6: &str = "six";

/// The expected result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Ready,
    /// Ready, with one of these texts in the warning.
    Warned(&'static [&'static str]),
    /// Not ready, with one of these texts in the event.
    Failed(&'static [&'static str]),
    /// The prober itself fails: the run is neither a success nor a failure.
    Error,
}

/// A container with one readiness probe.
struct Case {
    name: &'static str,
    handler: Value,
    outcome: Outcome,
}

use Outcome::{Error, Failed, Ready, Warned};

const TIMED_OUT: &[&str] = &["deadline", "timeout", "timed out"];
const REFUSED: &[&str] = &["connection refused"];
const REDIRECT: &[&str] = &["terminated redirects"];

/// With every handler the container is ready, or not ready with the kubelet's message, as its server answers;
/// the events, conditions and metrics agree.
fn handlers(context: &Context) -> Result<(), Failure> {
    let mut fixture = ProbeFixture::new(context, "")?;
    let ports = fixture.ports()?;
    let own = [http_cases(&fixture, &ports), other_cases(&fixture, &ports)];
    let mut pods = vec![
        (OWN, ports, own.into_iter().flatten().collect()),
        // In a pod of their own: containerd's shim loses track when very many processes start and end in one
        // pod.
        (COMMANDS, fixture.ports()?, command_cases()),
    ];
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        let ports = fixture.ports()?;
        pods.push((IPV6, ports, ipv6_cases(&ports)));
    }
    for (pod, ports, cases) in &pods {
        let mut manifest = fixture.pod(pod, spec(&fixture, pod, ports, cases));
        if *pod == IPV6 {
            // On the machine's network, which has the address ::1.
            manifest["spec"]["hostNetwork"] = json!(true);
        }
        fixture.pods.put([manifest])?;
    }
    for (pod, _, cases) in &pods {
        check_cases(&fixture, pod, cases)?;
    }
    shown::check(&fixture, OWN, SERVER, "http-503")?;
    let listening: BTreeSet<u16> = pods.iter().flat_map(|(_, ports, _)| ports.all()).collect();
    let samples = fixture.samples()?;
    let runs: f64 = samples.iter().filter(|of| of.name == "prober_probe_total").map(|of| of.value).sum();
    ensure_eq!(count_time_wait("self", &listening)?, 0, "connections of {runs} runs in the state TIME_WAIT");
    if !fixture.own_network() {
        println!("{REPORTED}pods are on the machine's network: no probe used an address of a pod's own");
    }
    fixture.pods.finish()
}

/// A server, and a container for each case.
fn spec(fixture: &ProbeFixture<'_>, pod: &str, ports: &Ports, cases: &[Case]) -> Value {
    let names = json!([{ "name": "web", "containerPort": ports.http }]);
    let more = json!({ "ports": names, "readinessProbe": probe(named(fixture, pod), fixture.patient()) });
    let mut containers = vec![fixture.server(pod, SERVER, &ports.arguments(), more)];
    for case in cases {
        let quick = json!({ "timeoutSeconds": fixture.context().scaled([1, 5]) });
        let more = if case.outcome == Ready { fixture.patient() } else { quick };
        let readiness = json!({ "readinessProbe": probe(case.handler.clone(), fixture.delayed(more)) });
        containers.push(shell(case.name, STAY, readiness));
    }
    json!({ "containers": containers })
}

/// A handler with the port by its name in the container.
fn named(fixture: &ProbeFixture<'_>, pod: &str) -> Value {
    let mut handler = fixture.http(0, "/ok?named");
    handler["httpGet"]["port"] = json!("web");
    if pod == IPV6 {
        handler["httpGet"]["host"] = json!("::1");
    }
    handler
}

/// Handlers `httpGet`.
fn http_cases(fixture: &ProbeFixture<'_>, ports: &Ports) -> Vec<Case> {
    let get = |name, path: &str, outcome| Case { name, handler: fixture.http(ports.http, path), outcome };
    let tls = |name, path: &str, outcome| {
        let mut handler = fixture.http(ports.https, path);
        handler["httpGet"]["scheme"] = json!("HTTPS");
        Case { name, handler, outcome }
    };
    let with = |name, path: &str, headers: Value, outcome| {
        let mut handler = fixture.http(ports.http, path);
        handler["httpGet"]["httpHeaders"] = headers;
        Case { name, handler, outcome }
    };
    let header = |name: &str, value: &str| json!([{ "name": name, "value": value }]);
    vec![
        get("http-200", "/ok?a=b", Ready),
        get("http-399", "/status/399", Warned(REDIRECT)),
        get("http-400", "/status/400", Failed(&["statuscode: 400"])),
        get("http-503", "/bad", Failed(&["statuscode: 503"])),
        get("http-hang", "/hang", Failed(TIMED_OUT)),
        get("http-reset", "/reset", Failed(&["reset by peer"])),
        get("http-flood", "/flood", Ready),
        get("http-to", "/to/to/ok", Ready),
        get("http-to-bad", "/to/bad", Failed(&["statuscode: 503"])),
        get("http-away", "/away", Warned(REDIRECT)),
        with("http-header", "/has?X-Asked=by%20probe", header("X-Asked", "by%20probe"), Ready),
        with("http-host", "/has?Host=probed.test", header("Host", "probed.test"), Ready),
        with("http-agent", "/has?User-Agent=mine/1", header("User-Agent", "mine/1"), Ready),
        with("http-no-header", "/has?X-Asked=yes", json!([]), Failed(&["statuscode: 400"])),
        Case { name: "http-closed", handler: fixture.http(ports.closed, "/ok"), outcome: Failed(REFUSED) },
        tls("https-200", "/ok", Ready),
        tls("https-503", "/bad", Failed(&["statuscode: 503"])),
        tls("https-reset", "/reset", Failed(&["reset", "EOF", "closed"])),
        // Plain HTTP to a server of TLS.
        Case {
            name: "https-plain",
            handler: fixture.http(ports.https, "/ok"),
            outcome: Failed(&["probe failed"]),
        },
    ]
}

/// Handlers `tcpSocket`, `exec` and `grpc`.
fn other_cases(fixture: &ProbeFixture<'_>, ports: &Ports) -> Vec<Case> {
    let case = |name, handler, outcome| Case { name, handler, outcome };
    let mut cases = vec![
        case("tcp", fixture.tcp(ports.tcp), Ready),
        case("tcp-closed", fixture.tcp(ports.closed), Failed(REFUSED)),
        case("tcp-deaf", fixture.tcp(ports.deaf), Failed(TIMED_OUT)),
        case("exec", exec("exit 0"), Ready),
    ];
    // A gRPC probe goes to the pod's address and to no other.
    if fixture.own_network() {
        cases.extend([
            case("grpc", grpc(ports.grpc, ""), Ready),
            case("grpc-good", grpc(ports.grpc, "good"), Ready),
            case("grpc-bad", grpc(ports.grpc, "bad"), Failed(&["NOT_SERVING"])),
            case("grpc-unknown", grpc(ports.grpc, "unknown"), Failed(&["health rpc"])),
            case("grpc-hang", grpc(ports.tcp, ""), Failed(TIMED_OUT)),
            case("grpc-closed", grpc(ports.closed, ""), Failed(&["failed to connect", "connection refused"])),
        ]);
    }
    cases
}

/// Handlers `exec`, with good and bad commands.
fn command_cases() -> Vec<Case> {
    let case = |name, handler, outcome| Case { name, handler, outcome };
    vec![
        case("exec", exec("exit 0"), Ready),
        case("exec-1", exec("echo not today; exit 1"), Failed(&["not today"])),
        case("exec-hang", exec("sleep 60"), Failed(TIMED_OUT)),
        case("exec-flood", exec("yes | head -c 100000; exit 1"), Failed(&["y\ny\ny"])),
        case("exec-nothing", json!({ "exec": { "command": ["/no/such/program"] } }), Error),
    ]
}

/// Handlers with the host ::1.
fn ipv6_cases(ports: &Ports) -> Vec<Case> {
    let at = |port: u16, host: &str, more: Value| merged(json!({ "port": port, "host": host }), more);
    let get =
        |port, host: &str, more| json!({ "httpGet": at(port, host, merged(json!({ "path": "/ok" }), more)) });
    vec![
        Case { name: "http-six", handler: get(ports.http, "::1", json!({})), outcome: Ready },
        Case { name: "http-localhost", handler: get(ports.http, "localhost", json!({})), outcome: Ready },
        Case {
            name: "https-six",
            handler: get(ports.https, "::1", json!({ "scheme": "HTTPS" })),
            outcome: Ready,
        },
        Case {
            name: "tcp-six",
            handler: json!({ "tcpSocket": at(ports.tcp, "::1", json!({})) }),
            outcome: Ready,
        },
        Case {
            name: "tcp-six-closed",
            handler: json!({ "tcpSocket": at(ports.closed, "::1", json!({})) }),
            outcome: Failed(REFUSED),
        },
    ]
}

/// Waits until every container of the pod is as its case expects. The failure shows those that are not. The
/// containers of a pod start one after the other: on a busy machine that alone takes a minute.
fn check_cases(fixture: &ProbeFixture<'_>, pod: &str, cases: &[Case]) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    let done = eventually(fixture.context().patiently(100), "", || {
        let Some(seen) = fixture.pods.pod(pod)? else { return Ok(None) };
        let events = fixture.events(pod)?;
        wrong.clear();
        for case in cases {
            let ready = seen.container(case.name).is_ok_and(|container| container.0["ready"] == true);
            let of: Vec<_> = events.iter().filter(|event| event.container == case.name).collect();
            if let Err(why) = case.check(ready, &of) {
                wrong.push(format!("{}: {why}", case.name));
            }
        }
        if !seen.container(SERVER).is_ok_and(|server| server.0["ready"] == true) {
            wrong.push("the server is not ready with its port's name".to_owned());
        }
        Ok(wrong.is_empty().then_some(()))
    });
    done.map_err(|_| Failure::Unexpected(format!("pod {pod}: {}", wrong.join("; "))))?;
    // No container was restarted for its readiness.
    let seen = fixture.pods.pod(pod)?;
    let restarts: u64 =
        seen.iter().flat_map(|pod| pod.statuses()).map(|container| container.restarts()).sum();
    ensure_eq!(restarts, 0, "restarts in pod {pod}");
    Ok(())
}

impl Case {
    /// Compares readiness and events of the container with the expected result.
    fn check(&self, ready: bool, events: &[&ProbeEvent]) -> Result<(), String> {
        let event_with = |reason: &str, words: &[&str]| {
            let of = events.iter().filter(|event| event.reason == reason);
            let found = of.clone().any(|event| words.iter().any(|word| event.message.contains(word)));
            if found {
                Ok(())
            } else {
                Err(format!("no {reason} with one of {words:?}: {:?}", of.collect::<Vec<_>>()))
            }
        };
        let wanted = matches!(self.outcome, Ready | Warned(_));
        if ready != wanted {
            return Err(format!("ready is {ready}: {events:?}"));
        }
        if let Some(long) = events.iter().find(|event| event.message.len() > (10 << 10) + 200) {
            return Err(format!("an event has {} bytes of output", long.message.len()));
        }
        match self.outcome {
            Ready => Ok(()),
            Warned(words) => event_with("ProbeWarning", words),
            Failed(words) => event_with("Unhealthy", words),
            Error => {
                event_with("ProbeError", &[""])?;
                event_with("Unhealthy", &[""]).map_or(Ok(()), |()| {
                    Err("the prober's failure counts as a failure of the container".to_owned())
                })
            }
        }
    }
}
