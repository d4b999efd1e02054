//! Every handler against real servers, good and bad: what makes a container ready, what does not, and what is said of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::manifest::{Ports, exec, grpc, probe};
use super::site::{Site, Told};
use super::{LONG_NEEDS, shown};
use crate::e2e::pods::manifest::{STAY, merged, shell};
use crate::e2e::support::eventually;
use crate::ensure_eq;
use crate::fixture::count_time_wait;
use crate::harness::{Context, Failure, REPORTED, Test};

pub const TESTS: &[Test] = &[Test::new("probe_handlers", handlers).timeout(150).needs(LONG_NEEDS)];

/// The server's container in every pod.
const SERVER: &str = "server";
/// The pod with a network of its own, if there is one.
const OWN: &str = "own";
/// The pod whose containers are probed by commands.
const COMMANDS: &str = "commands";
/// The pod that is reached by IPv6.
const SIX: &str = "six";

/// What a probe comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comes {
    Ready,
    /// Ready, and one of these is in the warning.
    Warned(&'static [&'static str]),
    /// Not ready, and one of these is in what is said of it.
    Failed(&'static [&'static str]),
    /// The prober itself fails: the run counts for nothing.
    Error,
}

/// A container with one readiness probe.
struct Case {
    name: &'static str,
    handler: Value,
    comes: Comes,
}

use Comes::{Error, Failed, Ready, Warned};

const LATE: &[&str] = &["deadline", "timeout", "timed out"];
const REFUSED: &[&str] = &["connection refused"];
const REDIRECT: &[&str] = &["terminated redirects"];

fn handlers(context: &Context) -> Result<(), Failure> {
    let mut site = Site::new(context, "")?;
    let ports = site.ports()?;
    let own = [http_cases(&site, &ports), other_cases(&site, &ports)];
    let mut pods = vec![
        (OWN, ports, own.into_iter().flatten().collect()),
        // Apart, since containerd's shim loses track where very much begins and ends in one pod at once.
        (COMMANDS, site.ports()?, command_cases()),
    ];
    if std::net::TcpListener::bind("[::1]:0").is_ok() {
        let ports = site.ports()?;
        pods.push((SIX, ports, cases_of_v6(&ports)));
    }
    for (pod, ports, cases) in &pods {
        let mut manifest = site.pod(pod, spec(&site, pod, ports, cases));
        if *pod == SIX {
            // Where the machine's ::1 is.
            manifest["spec"]["hostNetwork"] = json!(true);
        }
        site.stage.put([manifest])?;
    }
    for (pod, _, cases) in &pods {
        judge(&site, pod, cases)?;
    }
    shown::check(&site, OWN, SERVER, "http-503")?;
    let listening: BTreeSet<u16> = pods.iter().flat_map(|(_, ports, _)| ports.all()).collect();
    let samples = site.samples()?;
    let runs: f64 = samples.iter().filter(|of| of.name == "prober_probe_total").map(|of| of.value).sum();
    ensure_eq!(count_time_wait("self", &listening)?, 0, "connections of {runs} runs that wait out their end");
    if !site.own_network() {
        println!("{REPORTED}pods are on the machine's network: no probe went to an address of a pod's own");
    }
    site.stage.finish()
}

/// One container a case, beside the server.
fn spec(site: &Site<'_>, pod: &str, ports: &Ports, cases: &[Case]) -> Value {
    let names = json!([{ "name": "web", "containerPort": ports.http }]);
    let more = json!({ "ports": names, "readinessProbe": probe(named(site, pod), site.patient()) });
    let mut containers = vec![site.server(pod, SERVER, &ports.arguments(), more)];
    for case in cases {
        let quick = json!({ "timeoutSeconds": site.context().scaled([1, 5]) });
        let more = if case.comes == Ready { site.patient() } else { quick };
        let readiness = json!({ "readinessProbe": probe(case.handler.clone(), site.delayed(more)) });
        containers.push(shell(case.name, STAY, readiness));
    }
    json!({ "containers": containers })
}

/// By the name that the container gives its port.
fn named(site: &Site<'_>, pod: &str) -> Value {
    let mut handler = site.http(0, "/ok?named");
    handler["httpGet"]["port"] = json!("web");
    if pod == SIX {
        handler["httpGet"]["host"] = json!("::1");
    }
    handler
}

fn http_cases(site: &Site<'_>, ports: &Ports) -> Vec<Case> {
    let get = |name, path: &str, comes| Case { name, handler: site.http(ports.http, path), comes };
    let tls = |name, path: &str, comes| {
        let mut handler = site.http(ports.https, path);
        handler["httpGet"]["scheme"] = json!("HTTPS");
        Case { name, handler, comes }
    };
    let with = |name, path: &str, headers: Value, comes| {
        let mut handler = site.http(ports.http, path);
        handler["httpGet"]["httpHeaders"] = headers;
        Case { name, handler, comes }
    };
    let header = |name: &str, value: &str| json!([{ "name": name, "value": value }]);
    vec![
        get("http-200", "/ok?a=b", Ready),
        get("http-399", "/status/399", Warned(REDIRECT)),
        get("http-400", "/status/400", Failed(&["statuscode: 400"])),
        get("http-503", "/bad", Failed(&["statuscode: 503"])),
        get("http-hang", "/hang", Failed(LATE)),
        get("http-reset", "/reset", Failed(&["reset by peer"])),
        get("http-flood", "/flood", Ready),
        get("http-to", "/to/to/ok", Ready),
        get("http-to-bad", "/to/bad", Failed(&["statuscode: 503"])),
        get("http-away", "/away", Warned(REDIRECT)),
        with("http-header", "/has?X-Asked=by%20probe", header("X-Asked", "by%20probe"), Ready),
        with("http-host", "/has?Host=probed.test", header("Host", "probed.test"), Ready),
        with("http-agent", "/has?User-Agent=mine/1", header("User-Agent", "mine/1"), Ready),
        with("http-no-header", "/has?X-Asked=yes", json!([]), Failed(&["statuscode: 400"])),
        Case { name: "http-nobody", handler: site.http(ports.nobody, "/ok"), comes: Failed(REFUSED) },
        tls("https-200", "/ok", Ready),
        tls("https-503", "/bad", Failed(&["statuscode: 503"])),
        tls("https-reset", "/reset", Failed(&["reset", "EOF", "closed"])),
        // Who is not spoken to by TLS.
        Case {
            name: "https-plain",
            handler: site.http(ports.https, "/ok"),
            comes: Failed(&["probe failed"]),
        },
    ]
}

fn other_cases(site: &Site<'_>, ports: &Ports) -> Vec<Case> {
    let case = |name, handler, comes| Case { name, handler, comes };
    let mut cases = vec![
        case("tcp", site.tcp(ports.tcp), Ready),
        case("tcp-nobody", site.tcp(ports.nobody), Failed(REFUSED)),
        case("tcp-deaf", site.tcp(ports.deaf), Failed(LATE)),
        case("exec", exec("exit 0"), Ready),
    ];
    // A gRPC probe goes to the pod's address and to no other.
    if site.own_network() {
        cases.extend([
            case("grpc", grpc(ports.grpc, ""), Ready),
            case("grpc-good", grpc(ports.grpc, "good"), Ready),
            case("grpc-bad", grpc(ports.grpc, "bad"), Failed(&["NOT_SERVING"])),
            case("grpc-unknown", grpc(ports.grpc, "unknown"), Failed(&["health rpc"])),
            case("grpc-hang", grpc(ports.tcp, ""), Failed(LATE)),
            case("grpc-nobody", grpc(ports.nobody, ""), Failed(&["failed to connect", "connection refused"])),
        ]);
    }
    cases
}

fn command_cases() -> Vec<Case> {
    let case = |name, handler, comes| Case { name, handler, comes };
    vec![
        case("exec", exec("exit 0"), Ready),
        case("exec-1", exec("echo not today; exit 1"), Failed(&["not today"])),
        case("exec-hang", exec("sleep 60"), Failed(LATE)),
        case("exec-flood", exec("yes | head -c 100000; exit 1"), Failed(&["y\ny\ny"])),
        case("exec-nothing", json!({ "exec": { "command": ["/no/such/program"] } }), Error),
    ]
}

fn cases_of_v6(ports: &Ports) -> Vec<Case> {
    let at = |port: u16, host: &str, more: Value| merged(json!({ "port": port, "host": host }), more);
    let get =
        |port, host: &str, more| json!({ "httpGet": at(port, host, merged(json!({ "path": "/ok" }), more)) });
    vec![
        Case { name: "http-six", handler: get(ports.http, "::1", json!({})), comes: Ready },
        Case { name: "http-localhost", handler: get(ports.http, "localhost", json!({})), comes: Ready },
        Case {
            name: "https-six",
            handler: get(ports.https, "::1", json!({ "scheme": "HTTPS" })),
            comes: Ready,
        },
        Case {
            name: "tcp-six",
            handler: json!({ "tcpSocket": at(ports.tcp, "::1", json!({})) }),
            comes: Ready,
        },
        Case {
            name: "tcp-six-nobody",
            handler: json!({ "tcpSocket": at(ports.nobody, "::1", json!({})) }),
            comes: Failed(REFUSED),
        },
    ]
}

/// Waits until every container of the pod is as its case says, and shows those that are not.
fn judge(site: &Site<'_>, pod: &str, cases: &[Case]) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    let done = eventually(site.context().patiently(30), "", || {
        let Some(seen) = site.stage.pod(pod)? else { return Ok(None) };
        let told = site.told(pod)?;
        wrong.clear();
        for case in cases {
            let ready = seen.container(case.name).is_ok_and(|container| container.0["ready"] == true);
            let of: Vec<_> = told.iter().filter(|told| told.container == case.name).collect();
            if let Err(why) = case.check(ready, &of) {
                wrong.push(format!("{}: {why}", case.name));
            }
        }
        if !seen.container(SERVER).is_ok_and(|server| server.0["ready"] == true) {
            wrong.push("the server is not ready by its port's name".to_owned());
        }
        Ok(wrong.is_empty().then_some(()))
    });
    done.map_err(|_| Failure::Unexpected(format!("pod {pod}: {}", wrong.join("; "))))?;
    // What failed stays so, and nothing was restarted for its readiness.
    let seen = site.stage.pod(pod)?;
    let restarts: u64 =
        seen.iter().flat_map(|pod| pod.statuses()).map(|container| container.restarts()).sum();
    ensure_eq!(restarts, 0, "restarts in pod {pod}");
    Ok(())
}

impl Case {
    fn check(&self, ready: bool, told: &[&Told]) -> Result<(), String> {
        let said = |reason: &str, words: &[&str]| {
            let of = told.iter().filter(|told| told.reason == reason);
            let found = of.clone().any(|told| words.iter().any(|word| told.message.contains(word)));
            if found {
                Ok(())
            } else {
                Err(format!("no {reason} with one of {words:?}: {:?}", of.collect::<Vec<_>>()))
            }
        };
        let wanted = matches!(self.comes, Ready | Warned(_));
        if ready != wanted {
            return Err(format!("ready is {ready}: {told:?}"));
        }
        if let Some(long) = told.iter().find(|told| told.message.len() > (10 << 10) + 200) {
            return Err(format!("{} bytes of output are told", long.message.len()));
        }
        match self.comes {
            Ready => Ok(()),
            Warned(words) => said("ProbeWarning", words),
            Failed(words) => said("Unhealthy", words),
            Error => {
                said("ProbeError", &[""])?;
                said("Unhealthy", &[""]).map_or(Ok(()), |()| Err("it counts as a failure".to_owned()))
            }
        }
    }
}
