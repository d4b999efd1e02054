//! How a node gets its certificates: by a bootstrap token, for its server, and after one that has ended.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;

use super::NEEDS;
use super::fixture::{CERTIFICATES, ClusterFixture, container_id, ensure_no_restart};
use super::manifest::{WAIT, pod};
use super::options::{NodeOptions, Prepared};
use super::requests::{self, CLIENT, SERVING};
use crate::e2e::support::eventually;
use crate::fixture::HttpsServer;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("cluster_bootstrap", bootstrap).timeout(240).needs(NEEDS),
    Test::new("cluster_serving_certificate", serving).timeout(240).needs(NEEDS),
    Test::new("cluster_ended_certificate", ended).timeout(240).needs(NEEDS),
];

/// How the names of users begin that have a bootstrap token.
const BOOTSTRAP_USER: &str = "system:bootstrap:";

/// A token is enough: the agent requests its certificate, writes the kubeconfig, and starts with them the
/// next time.
fn bootstrap(context: &Context) -> Result<(), Failure> {
    let prepared = Prepared::new(context)?;
    let kubectl = prepared.cluster().kubectl();
    let before = requests::of(&kubectl, BOOTSTRAP_USER)?;
    let kubeconfig = context.temp.join("made").join("node.kubeconfig");
    let token = prepared.cluster().bootstrap().to_string_lossy().into_owned();
    let begun = Instant::now();
    let mut fixture = prepared.start(NodeOptions {
        kubeconfig: Some(kubeconfig.clone()),
        arguments: vec!["--bootstrap-kubeconfig".into(), token],
        ..NodeOptions::default()
    })?;
    println!("{REPORTED}agent started to node ready, with a bootstrap token: {:.1} s", seconds(begun));
    let made: Vec<_> = requests::of(&kubectl, BOOTSTRAP_USER)?.difference(&before).cloned().collect();
    ensure_eq!(made.len(), 1, "certificate signing requests, {made:?}");
    ensure!(made[0].signer == CLIENT, "the request is {:?}", made[0]);
    the_kubeconfig_is_a_kubelets(context, &fixture, &kubeconfig)?;
    fixture.apply(&pod("first", fixture.name(), WAIT))?;
    let first = fixture.wait_ready("first")?;
    fixture.ensure_nothing_forbidden()?;

    fixture.restart_agent(|| Ok(()))?;
    fixture.wait_renewed(30)?;
    fixture.apply(&pod("second", fixture.name(), WAIT))?;
    fixture.wait_ready("second")?;
    let after = fixture.wait_ready("first")?;
    ensure_eq!(container_id(&after), container_id(&first), "the container that ran all the time");
    let again: Vec<_> = requests::of(&kubectl, BOOTSTRAP_USER)?.difference(&before).cloned().collect();
    ensure_eq!(again.len(), 1, "certificate signing requests after a restart, {again:?}");
    let of_the_node = requests::of(&kubectl, &format!("system:node:{}", fixture.name()))?;
    ensure!(of_the_node.is_empty(), "requests of the node itself: {of_the_node:?}");
    fixture.ensure_nothing_forbidden()?;
    requests::delete(&kubectl, &again)?;
    fixture.finish()
}

fn the_kubeconfig_is_a_kubelets(
    context: &Context,
    fixture: &ClusterFixture<'_>,
    path: &Path,
) -> Result<(), Failure> {
    let text = fs::read_to_string(path).map_err(Failure::file(path))?;
    let config: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::Unexpected(format!("the kubeconfig is no JSON: {error}: {text}")))?;
    let current = context.temp.join(CERTIFICATES).join("kubelet-client-current.pem");
    let user = &config["users"][0];
    for key in ["client-certificate", "client-key"] {
        ensure_eq!(user["user"][key].as_str(), current.to_str(), "{key}");
    }
    for (found, expected) in [
        (&user["name"], "default-auth"),
        (&config["current-context"], "default-context"),
        (&config["clusters"][0]["name"], "default-cluster"),
        (&config["contexts"][0]["context"]["user"], "default-auth"),
        (&config["clusters"][0]["cluster"]["server"], fixture.cluster().server()),
    ] {
        ensure_eq!(found, expected, "a name in {text}");
    }
    ensure!(!text.contains("token"), "the bootstrap token is in the kubeconfig: {text}");
    let own = fixture.cluster().kubectl_with(path);
    ensure_eq!(own.get(&["node", fixture.name()])?["metadata"]["name"], fixture.name(), "the node");
    Ok(())
}

/// The serving certificate is requested, an administrator approves it, and the node's server has it without a
/// restart.
fn serving(context: &Context) -> Result<(), Failure> {
    let prepared = Prepared::new(context)?;
    let kubectl = prepared.cluster().kubectl();
    let user = format!("system:node:{}", prepared.name());
    let lines = "serverTLSBootstrap: true\n".to_owned();
    let mut fixture = prepared.start(NodeOptions { lines, ..NodeOptions::default() })?;
    let waits = eventually(context.patiently(20), "no request for a serving certificate", || {
        Ok(requests::of(&kubectl, &user)?.into_iter().find(|one| one.waits))
    })?;
    ensure!(waits.signer == SERVING && waits.user == user, "the request is {waits:?}");
    let (authority, name) = (fixture.cluster().authority(), fixture.name().to_owned());
    let server = HttpsServer { port: fixture.port(), name: &name, authority: &authority };
    ensure!(server.certificate().is_err(), "the server has a certificate that was not approved yet");
    let own = context.temp.join(CERTIFICATES).join("kubelet.crt");
    let self_signed = HttpsServer { authority: &own, ..server };
    ensure!(self_signed.certificate().is_ok(), "no self-signed certificate: {:?}", self_signed.certificate());

    kubectl.run(&["certificate", "approve", &waits.name])?;
    let begun = Instant::now();
    let shown =
        eventually(context.patiently(30), "the server does not show the approved certificate", || {
            Ok(server.certificate().ok())
        })?;
    println!("{REPORTED}certificate approved to served: {:.1} s", seconds(begun));
    // kubectl logs and exec go on with it.
    fixture.apply(&pod("talker", fixture.name(), &format!("echo heard; {WAIT}")))?;
    fixture.wait_ready("talker")?;
    ensure_eq!(fixture.run(&["exec", "talker", "--", "echo", "there"])?, "there\n", "output of exec");

    fixture.restart_agent(|| Ok(()))?;
    let after = eventually(context.patiently(20), "the server does not answer after a restart", || {
        Ok(server.certificate().ok())
    })?;
    ensure!(after == shown, "the certificate after a restart is another one");
    fixture.wait_renewed(30)?;
    let made = requests::of(&kubectl, &user)?;
    ensure_eq!(made.len(), 1, "requests of the node, {made:?}");
    requests::delete(&kubectl, &made)?;
    fixture.finish()
}

/// With a certificate that has ended the agent says so and its pods go on; a new one is used without a
/// restart.
fn ended(context: &Context) -> Result<(), Failure> {
    let prepared = Prepared::new(context)?;
    let cluster = prepared.cluster().clone();
    let good = cluster.node(prepared.name())?;
    let good = fs::read(&good).map_err(Failure::file(&good))?;
    let ended = cluster.ended_node(prepared.name())?;
    let path = context.temp.join("node.kubeconfig");
    fs::write(&path, &good).map_err(Failure::file(&path))?;
    let options = NodeOptions { kubeconfig: Some(path.clone()), ..NodeOptions::default() };
    let mut fixture = prepared.start(options)?;
    fixture.apply(&pod("stays", fixture.name(), WAIT))?;
    let before = fixture.wait_ready("stays")?;

    fixture.restart_agent(|| fs::write(&path, ended).map_err(Failure::file(&path)))?;
    eventually(context.patiently(20), "the log does not say that the certificate has ended", || {
        let log = fixture.agent()?.log();
        let says = |line: &str| line.contains("certificate") && line.contains("2001-12-31");
        Ok(log.lines().any(says).then_some(()))
    })?;
    // Pods that are made meanwhile wait.
    fixture.apply(&pod("later", fixture.name(), WAIT))?;
    std::thread::sleep(std::time::Duration::from_secs(5));
    let lines = fixture.agent()?.log().lines().filter(|line| line.contains("2001-12-31")).count();
    ensure_eq!(lines, 1, "lines about the certificate in {}", fixture.agent()?.log());

    let begun = Instant::now();
    fs::write(&path, &good).map_err(Failure::file(&path))?;
    fixture.wait_ready("later")?;
    println!("{REPORTED}kubeconfig replaced to a waiting pod ready: {:.1} s", seconds(begun));
    let after = fixture.wait_ready("stays")?;
    ensure_no_restart(&after)?;
    ensure_eq!(container_id(&after), container_id(&before), "the container that ran all the time");
    fixture.finish()
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}
