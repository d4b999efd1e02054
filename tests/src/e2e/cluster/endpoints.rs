//! The node's server: what it answers through the API server's proxy, and to whom it answers directly.

use serde_json::{Value, json};

use super::NEEDS;
use super::fixture::{CERTIFICATES, ClusterFixture};
use super::manifest::{WAIT, pod};
use super::options::{NodeOptions, Prepared};
use crate::e2e::support::eventually;
use crate::fixture::{HttpsServer, parse_samples};
use crate::harness::{Context, Failure, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("cluster_node_endpoints", endpoints).timeout(240).needs(NEEDS),
    Test::new("cluster_node_clients", clients).timeout(240).needs(NEEDS),
];

/// What `kubectl get --raw` of the node's proxy answers.
fn endpoints(context: &Context) -> Result<(), Failure> {
    let fixture = ClusterFixture::start(context)?;
    fixture.apply(&pod("shown", fixture.name(), WAIT))?;
    fixture.wait_ready("shown")?;
    let raw = |path: &str| {
        let path = format!("/api/v1/nodes/{}/proxy{path}", fixture.name());
        fixture.kubectl().run(&["get", "--raw", &path])
    };
    let parsed = |path: &str| -> Result<Value, Failure> {
        let text = raw(path)?;
        serde_json::from_str(&text)
            .map_err(|error| Failure::Unexpected(format!("{path} is no JSON: {error}: {text}")))
    };
    ensure_eq!(raw("/healthz")?, "ok", "/healthz");
    for (path, wanted) in [
        ("/metrics/resource", "node_cpu_usage_seconds_total"),
        ("/metrics/cadvisor", "container_cpu_usage_seconds_total"),
        ("/metrics/probes", ""),
        ("/metrics", ""),
    ] {
        let text = raw(path)?;
        let samples = parse_samples(&text);
        ensure!(wanted.is_empty() || samples.iter().any(|one| one.name == wanted), "{path} has no {wanted}");
    }
    eventually(context.patiently(30), "/metrics/resource does not have the pod", || {
        let text = raw("/metrics/resource")?;
        let of_pod =
            |line: &&str| line.starts_with("pod_memory_working_set_bytes{") && line.contains("shown");
        Ok(text.lines().find(of_pod).map(drop))
    })?;
    let summary = eventually(context.patiently(30), "/stats/summary does not have the pod", || {
        let summary = parsed("/stats/summary")?;
        let pods = summary["pods"].as_array().cloned().unwrap_or_default();
        let is_there = pods.iter().any(|pod| pod["podRef"]["name"] == "shown");
        Ok(is_there.then_some(summary))
    })?;
    ensure_eq!(summary["node"]["nodeName"], fixture.name(), "node of /stats/summary");
    ensure!(
        summary["node"]["memory"]["workingSetBytes"].as_u64().is_some_and(|bytes| bytes > 0),
        "memory of the node: {}",
        summary["node"]["memory"]
    );
    for path in ["/pods", "/runningpods/"] {
        let list = parsed(path)?;
        ensure_eq!((&list["kind"], &list["apiVersion"]), (&json!("PodList"), &json!("v1")), "{path}");
        let names: Vec<_> =
            list["items"].as_array().into_iter().flatten().map(|p| &p["metadata"]["name"]).collect();
        ensure_eq!(names, ["shown"], "pods of {path}");
    }
    let config = parsed("/configz")?;
    ensure_eq!(config["kubeletconfig"]["clusterDomain"], "cluster.local", "clusterDomain of /configz");
    let listing = raw("/logs/")?;
    ensure!(listing.starts_with("<!doctype html>") || listing.contains("<pre>"), "/logs/: {listing:?}");
    // kubectl prints what a server says of an error.
    for (path, code) in
        [("/nothing-here", "404"), ("/logs/nothing-here", "404"), ("/containerLogs/a/b/c", "404")]
    {
        let says = raw(path).err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(says.contains("NotFound") || says.contains(code), "{path}: {says:?}");
    }
    fixture.ensure_nothing_forbidden()?;
    fixture.finish()
}

/// Who asks directly needs a token that the API server knows, and rights: on the node's port, and at the
/// agent's own HTTP where other machines reach it.
fn clients(context: &Context) -> Result<(), Failure> {
    let options = NodeOptions { remote_http: true, ..NodeOptions::default() };
    let fixture = Prepared::new(context)?.start(options)?;
    let own = fixture.agent()?.http();
    fixture.run(&["create", "serviceaccount", "unbound"])?;
    let unbound = token(context, &fixture, "unbound")?;
    with_reader(context, &fixture, |reader| {
        let ports = [fixture.port(), own.port()];
        ports.into_iter().try_for_each(|port| ask(context, &fixture, port, [reader, &unbound]))
    })?;
    let plain = fixture.agent()?.get("/metrics");
    ensure!(plain.is_err(), "without TLS there is an answer: {plain:?}");
    fixture.finish()
}

/// Calls `check` with the token of a service account that may get `nodes/metrics` and nothing else.
fn with_reader(
    context: &Context,
    fixture: &ClusterFixture<'_>,
    check: impl FnOnce(&str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    fixture.run(&["create", "serviceaccount", "reader"])?;
    let role = format!("{}-reader", fixture.name());
    let account = format!("--serviceaccount={}:reader", fixture.name());
    let kubectl = fixture.kubectl();
    kubectl.run(&["create", "clusterrole", &role, "--verb=get", "--resource=nodes/metrics"])?;
    let bound = kubectl.run(&["create", "clusterrolebinding", &role, "--clusterrole", &role, &account]);
    let checked = bound
        .map_err(Failure::from)
        .and_then(|_| token(context, fixture, "reader"))
        .and_then(|token| check(&token));
    kubectl.run(&["delete", "clusterrole,clusterrolebinding", &role])?;
    checked
}

fn ask(
    context: &Context,
    fixture: &ClusterFixture<'_>,
    port: u16,
    [reader, unbound]: [&str; 2],
) -> Result<(), Failure> {
    let own = context.temp.join(CERTIFICATES).join("kubelet.crt");
    let server = HttpsServer { port, name: fixture.name(), authority: &own };
    let ask =
        |path: &str, token: Option<&str>| server.get(path, token).map_err(Failure::file("the node's server"));
    let damaged = format!("{}x", &reader[..reader.len() - 1]);
    for (who, token, path, expected) in [
        ("without a token", None, "/metrics", 401),
        ("without a token", None, "/healthz", 401),
        ("with a made-up token", Some("nonsense"), "/metrics", 401),
        ("with a damaged token", Some(damaged.as_str()), "/metrics", 401),
        ("without rights", Some(unbound), "/metrics", 403),
        ("without rights", Some(unbound), "/pods", 403),
        ("with rights", Some(reader), "/metrics/resource", 200),
        ("with rights", Some(reader), "/metrics", 200),
        ("with rights to something else", Some(reader), "/pods", 403),
        ("with rights to something else", Some(reader), "/stats/summary", 403),
    ] {
        let (status, body) = ask(path, token)?;
        ensure_eq!(status, expected, "port {port}, {path} {who}: {body:?}");
        if status == 403 {
            let user = format!("system:serviceaccount:{}:", fixture.name());
            ensure!(body.contains(&user), "the refusal does not name the user: {body:?}");
        }
        ensure!(!token.is_some_and(|token| body.contains(token)), "the answer has the token: {body:?}");
    }
    Ok(())
}

/// The token of a service account.
fn token(context: &Context, fixture: &ClusterFixture<'_>, account: &str) -> Result<String, Failure> {
    let secret = eventually(context.patiently(20), "the service account has no token", || {
        let object = fixture.get(&["serviceaccount", account])?;
        Ok(object["secrets"][0]["name"].as_str().map(str::to_owned))
    })?;
    fixture.run(&["get", "secret", &secret, "-o", "go-template={{.data.token|base64decode}}"])
}
