//! Eviction beside a kubelet: real processes in cgroups as a kubelet makes them, and what the API server
//! hears of it. The kubelet itself is not there: nothing starts a killed container again, or takes down a
//! pod.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::evicting::{Evicting, Kind, LEFT_MIB, OWN_THRESHOLDS, kubelet_file};
use super::fixture::NEEDS;
use crate::e2e::pressure::fixture::{decisions, metric, output_of};
use crate::e2e::support::eventually;
use crate::harness::{Context, Failure, REPORTED, Test};
use crate::{ensure, ensure_eq};

pub const TESTS: &[Test] = &[
    Test::new("augment_eviction_hard", hard).timeout(90).needs(NEEDS),
    Test::new("augment_eviction_beside_an_old_kubelet", old_kubelet).timeout(90).needs(NEEDS),
    Test::new("augment_eviction_audited", audited).timeout(90).needs(NEEDS),
    Test::new("augment_eviction_soft", soft).timeout(120).needs(NEEDS),
    Test::new("augment_eviction_while_the_api_server_is_away", away).timeout(150).needs(NEEDS),
];

/// The pool with pods that must never be evicted, although the first two use more than any other.
fn pool<'c>(context: &'c Context, kubelet: &str) -> Result<Evicting<'c>, Failure> {
    let mut node = Evicting::new(context, kubelet)?;
    for (name, kind, mib) in [
        ("of-manifest", Kind::Static, 90),
        ("opted-out", Kind::OptedOut, 80),
        ("critical", Kind::Critical, 4),
        ("modest", Kind::Plain, 6),
    ] {
        node.pod(name, kind)?;
        node.eat(name, mib)?;
    }
    node.pod("eater", Kind::Plain)?;
    Ok(node)
}

const OTHERS: [&str; 4] = ["of-manifest", "opted-out", "critical", "modest"];
/// With the others it is just beyond the threshold.
const EATER_MIB: u64 = 75;

/// At a threshold somewhat before the kubelet's, the right pod is killed at once and its status says so;
/// static, critical and opted-out pods stay, though larger.
fn hard(context: &Context) -> Result<(), Failure> {
    let mut node = pool(context, "v1.29.3")?;
    let file = kubelet_file(context.temp.path(), "evictionHard: {memory.available: 100Mi}\n")?;
    let mut options = node.options("Enforce", "");
    let margin = LEFT_MIB - 100;
    let own = format!(", kubeletConfig: {}, evictionMargin: {margin}Mi}}", file.display());
    options.section = options.section.trim_end_matches('}').to_owned() + &own;
    let agent = crate::fixture::Agent::start(context, &options)?;
    std::thread::sleep(node.wait(2));
    node.check_alive(&OTHERS)?;
    ensure_eq!(decisions(&agent)?.len(), 0, "decisions before the threshold is crossed");

    node.eat("eater", EATER_MIB)?;
    let took = node.wait_killed("eater", 20)?;
    let pod = node.wait_failed("eater", 10)?;
    println!("{REPORTED}the process is gone {took:?} after it began to use memory");
    ensure_eq!(pod["status"]["reason"], "Evicted", "reason");
    let message = pod["status"]["message"].as_str().unwrap_or_default();
    ensure!(message.starts_with("The node was low on resource: memory."), "message: {message:?}");
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let disrupted: Vec<&Value> = conditions.iter().filter(|one| one["type"] == "DisruptionTarget").collect();
    ensure!(matches!(disrupted[..], [one] if one["status"] == "True"), "conditions: {conditions:?}");
    ensure!(
        node.api.asked("eater").is_empty(),
        "it was deleted or asked about: {:?}",
        node.api.asked("eater")
    );

    let decision = node.decision_on(&agent, "eater")?;
    let step = |what: &str| decision.steps.iter().find(|step| step.what == what).map(|step| step.after_us);
    println!("{REPORTED}killed {:?} µs after the reading", step("kill"));
    for (name, reason) in [("of-manifest", "static"), ("opted-out", "opted out"), ("critical", "critical")] {
        let seen = decision.candidates.iter().find(|one| one.uid == node.uid(name));
        ensure!(
            seen.is_some_and(|one| !one.chosen && one.spared.contains(reason)),
            "{name} in the decision: {seen:?}"
        );
    }
    // Nothing more is evicted, whatever is waited for.
    std::thread::sleep(node.wait(2));
    node.check_alive(&OTHERS)?;
    ensure_eq!(decisions(&agent)?.iter().filter(|one| !one.would).count(), 1, "decisions");
    ensure_eq!(metric(&agent, "nodewarden_augment_evictions_total", ("result", "failed"))?, 1.0, "counted");
    ensure_eq!(metric(&agent, "kubelet_evictions", ("", ""))?, 1.0, "evictions");
    Ok(())
}

/// A kubelet before 1.22 keeps its own view of the phase: the pod is deleted, and no other of its name.
fn old_kubelet(context: &Context) -> Result<(), Failure> {
    let mut node = pool(context, "v1.20.2")?;
    let agent = node.start("Enforce", OWN_THRESHOLDS)?;
    node.eat("eater", EATER_MIB)?;
    node.wait_killed("eater", 20)?;
    eventually(node.wait(10), "the pod is still at the API server", || {
        Ok(node.api.pod("eater").is_none().then_some(()))
    })?;
    let asked = node.api.asked("eater");
    ensure_eq!(asked.len(), 1, "requests about the pod: {asked:?}");
    ensure_eq!(asked[0]["gracePeriodSeconds"], 0, "grace: {}", asked[0]);
    ensure_eq!(asked[0]["preconditions"]["uid"], node.uid("eater"), "uid: {}", asked[0]);
    let history = node.api.history("eater");
    ensure!(history.iter().all(|pod| pod["status"]["phase"] == "Running"), "its status was changed");
    node.check_alive(&OTHERS)?;
    drop(agent);
    Ok(())
}

/// In Audit it is said which pod would be evicted. Nothing is killed, and the API server hears nothing.
fn audited(context: &Context) -> Result<(), Failure> {
    let mut node = pool(context, "v1.29.3")?;
    let agent = node.start("Audit", OWN_THRESHOLDS)?;
    let before = node.api.changes();
    node.eat("eater", EATER_MIB)?;
    let decision = node.decision_on(&agent, "eater")?;
    ensure!(decision.would, "it was carried out: {decision:?}");
    std::thread::sleep(node.wait(3));
    node.check_alive(&["of-manifest", "opted-out", "critical", "modest", "eater"])?;
    ensure_eq!(node.api.changes(), before, "changes at the API server");
    ensure!(node.api.asked("eater").is_empty(), "{:?}", node.api.asked("eater"));
    let events = output_of(&agent, &["events", "--output", "json", "--since", "10m", "--no-follow"])?;
    ensure!(events.contains("WouldEvict"), "the journal does not have it: {events}");
    ensure!(metric(&agent, "nodewarden_would_evict_total", ("", ""))? >= 1.0, "it is not counted");
    ensure_eq!(metric(&agent, "kubelet_evictions", ("", ""))?, 0.0, "evictions");
    Ok(())
}

/// A soft threshold asks the API server, for which disruption budgets hold; after a refusal the next pod is
/// asked about.
fn soft(context: &Context) -> Result<(), Failure> {
    let mut node = pool(context, "v1.29.3")?;
    node.pod("second", Kind::Plain)?;
    node.api.keep("eater");
    let agent = node.start(
        "Enforce",
        "evictionHard: {memory.available: 20Mi, NO_DISKS}\n\
         evictionSoft: {allocatableMemory.available: 150Mi}\n\
         evictionSoftGracePeriod: {allocatableMemory.available: 1s}\n\
         evictionMaxPodGracePeriod: 5",
    )?;
    // Without it there is enough again.
    node.eat("second", 45)?;
    node.eat("eater", 50)?;
    let gone = eventually(node.wait(20), "the second pod is not asked to end", || {
        Ok(node.api.pod("second").filter(|pod| !pod["metadata"]["deletionTimestamp"].is_null()))
    })?;
    // The pod's own grace is 7 s.
    ensure_eq!(gone["metadata"]["deletionGracePeriodSeconds"], 5, "grace");
    let expected = |name: &str| {
        json!({
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": name, "namespace": "default" },
            "deleteOptions": { "gracePeriodSeconds": 5, "preconditions": { "uid": node.uid(name) } },
        })
    };
    ensure_eq!(node.api.asked("eater"), [expected("eater")], "requests about the pod that is kept");
    ensure_eq!(node.api.asked("second"), [expected("second")], "requests about the other");
    // Neither kills: ending pods is the kubelet's.
    node.check_alive(&["of-manifest", "opted-out", "critical", "modest", "eater", "second"])?;
    node.end("second");
    std::thread::sleep(node.wait(3));
    node.check_alive(&["of-manifest", "opted-out", "critical", "modest", "eater"])?;
    for (result, count) in [("refused", 1.0), ("asked", 1.0), ("failed", 0.0)] {
        ensure_eq!(
            metric(&agent, "nodewarden_augment_evictions_total", ("result", result))?,
            count,
            "{result}"
        );
    }
    for name in ["of-manifest", "opted-out", "critical"] {
        ensure!(node.api.asked(name).is_empty(), "{name}: {:?}", node.api.asked(name));
    }
    Ok(())
}

/// While the API server is away pods are killed all the same, and their status follows, also over kill -9 of
/// the agent.
fn away(context: &Context) -> Result<(), Failure> {
    let mut node = pool(context, "v1.29.3")?;
    node.pod("next", Kind::Plain)?;
    let mut agent = node.start("Enforce", OWN_THRESHOLDS)?;
    node.api.set_away(true);
    node.eat("eater", EATER_MIB)?;
    node.wait_killed("eater", 20)?;
    std::thread::sleep(node.wait(1));
    ensure_eq!(phase(&node, "eater"), "Running", "phase while the API server is away");
    node.api.set_away(false);
    node.wait_failed("eater", 20)?;
    wait_recorded(&node, "eater", false)?;

    // The watch goes on by now, so that the next pod is known.
    node.api.set_away(true);
    node.eat("next", EATER_MIB)?;
    node.wait_killed("next", 20)?;
    wait_recorded(&node, "next", true)?;
    agent.end(Signal::SIGKILL, node.wait(5))?;
    let again = node.start("Enforce", OWN_THRESHOLDS)?;
    ensure_eq!(phase(&node, "next"), "Running", "phase while the API server is away");
    node.api.set_away(false);
    let pod = node.wait_failed("next", 20)?;
    ensure_eq!(pod["status"]["reason"], "Evicted", "reason");
    wait_recorded(&node, "next", false)?;
    node.check_alive(&OTHERS)?;
    drop(again);
    Ok(())
}

fn phase(node: &Evicting<'_>, name: &str) -> String {
    let pod = node.api.pod(name).unwrap_or_default();
    pod["status"]["phase"].as_str().unwrap_or_default().to_owned()
}

/// Waits until the pod is, or is no longer, in the state directory.
fn wait_recorded(node: &Evicting<'_>, name: &str, recorded: bool) -> Result<(), Failure> {
    let file = node.state().join("killed.json");
    eventually(node.wait(10), &format!("{name} is not recorded as expected ({recorded})"), || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        Ok((text.contains(node.uid(name)) == recorded).then_some(()))
    })?;
    std::thread::sleep(Duration::from_millis(50));
    Ok(())
}
